package sensuctl

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"reflect"

	"github.com/muster-fleet/muster/internal/model"
)

// managedBy is the label that sensuctl create writes into all that it sends.
const managedBy = "sensu.io/managed_by"

// sent is the document in the body, which can be read again.
func (s *Server) sent(r *request) (*document, error) {
	data, err := bodyOf(r)
	if err != nil {
		return nil, err
	}
	return parseBody(data, types[r.kind].sensu, r.namespace, sensuName(r))
}

// shown is what a list shows of what is sent; nil: it is not there. What is there and has no form
// in Sensu's words is an error.
func (s *Server) shown(ctx context.Context, r *request) (*document, error) {
	read := s.operationOf(http.MethodGet, r)
	if r.Method != http.MethodPut || len(r.names) == 0 || read == nil {
		return nil, nil
	}
	shown, err := read(ctx, r)
	if model.ClassOf(err) == model.NotFound {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(shown.body)
	if err != nil {
		return nil, err
	}
	return parseBody(text, types[r.kind].sensu, r.namespace, sensuName(r))
}

// unchanged says whether what is sent is what a list shows of it: then it stays as it is, also in what
// Sensu has no words for, so that what was dumped may be given back.
func (s *Server) unchanged(ctx context.Context, r *request) (bool, error) {
	was, err := s.shown(ctx, r)
	if errors.As(err, new(*refusal)) {
		return false, nil
	}
	if err != nil || was == nil {
		return false, err
	}
	doc, err := s.sent(r)
	return err == nil && doc.same(was), err
}

// bodyOf reads the body, and puts it back.
func bodyOf(r *request) ([]byte, error) {
	data, err := io.ReadAll(r.Body)
	if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
		return nil, model.Errorf(model.TooLarge, "the resource has more than %d bytes", tooLarge.Limit)
	}
	if err != nil {
		return nil, model.Errorf(model.Invalid, "read the request: %v", err)
	}
	r.Body = io.NopCloser(bytes.NewReader(data))
	return data, nil
}

// measured are fields of entities that nobody declares.
var measured = []string{"last_seen", "system", "sensu_agent_version", "redact", "user"}

// same says whether two documents say the same. It leaves out of both what does not count.
func (d *document) same(as *document) bool { return reflect.DeepEqual(d.said(), as.said()) }

// said is what a document says, without what sensuctl adds and without what is empty.
func (d *document) said() any {
	if d.kind == "Entity" || d.kind == "EntityConfig" {
		for _, field := range measured {
			delete(d.spec, field)
		}
	}
	if labels, ok := d.meta["labels"].(object); ok {
		delete(labels, managedBy)
	}
	delete(d.meta, "created_by")
	return full(object{"spec": d.spec, "metadata": d.meta})
}

// full leaves out what is empty: sensuctl and Muster do not write the same of that.
func full(v any) any {
	switch v := v.(type) {
	case object:
		out := object{}
		for name, of := range v {
			if of = full(of); of != nil {
				out[name] = of
			}
		}
		if len(out) > 0 {
			return out
		}
		return nil
	case []any:
		var out []any
		for _, of := range v {
			out = append(out, full(of))
		}
		if len(out) > 0 {
			return out
		}
		return nil
	case string:
		if v != "" {
			return v
		}
		return nil
	case bool:
		if v {
			return v
		}
		return nil
	case float64:
		if v != 0 {
			return v
		}
		return nil
	}
	return v
}
