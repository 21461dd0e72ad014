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

// unchanged says whether what is sent is what a list shows of it: then it stays as it is, also in what
// Sensu has no words for, so that what was dumped may be given back. The body can be read again.
func (s *Server) unchanged(ctx context.Context, r *request) (bool, error) {
	data, err := bodyOf(r)
	if err != nil {
		return false, err
	}
	if r.Method != http.MethodPut || len(r.names) == 0 {
		return false, nil
	}
	doc, err := parseBody(data, types[r.kind].sensu, r.namespace, sensuName(r))
	if err != nil {
		return false, err
	}
	read := s.operationOf(http.MethodGet, r)
	if read == nil {
		return false, nil
	}
	shown, err := read(ctx, r)
	if refused := (*refusal)(nil); errors.As(err, &refused) || model.ClassOf(err) == model.NotFound {
		return false, nil // it is not there, or has no form
	}
	if err != nil {
		return false, err
	}
	text, err := json.Marshal(shown.body)
	if err != nil {
		return false, err
	}
	was, err := parseBody(text, doc.kind, doc.namespace, doc.name)
	if err != nil {
		return false, err
	}
	return reflect.DeepEqual(doc.said(), was.said()), nil
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
