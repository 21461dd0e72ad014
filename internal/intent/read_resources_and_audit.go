package intent

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/aymanbagabas/go-udiff"
	"github.com/google/uuid"

	"github.com/muster-fleet/muster/internal/document"
	"github.com/muster-fleet/muster/internal/model"
)

// Resources reads and changes declared resources.
type Resources struct{ *repository }

// Get returns one declared resource.
func (s *Resources) Get(ctx context.Context, key Key) (*model.Resource, error) {
	row, err := s.opts.Store.Get(ctx, key)
	if err != nil {
		return nil, err
	}
	return s.decode(row)
}

// List returns all resources of a kind that match a query, in key order. match may be nil.
func (s *Resources) List(ctx context.Context, q ListQuery, match func(*model.Resource) bool) ([]model.Resource, error) {
	q.Limit = 0
	out, _, err := s.list(ctx, q, match, 0)
	return out, err
}

// pageBytes bounds the stored bytes of one page of resources, without the last resource.
const pageBytes = 8 << 20

// Page returns one page of a list of resources, beginning after a given key. The key is q.After. A page has at
// most q.Limit resources and about pageBytes. more is true if further resources follow.
func (s *Resources) Page(ctx context.Context, q ListQuery, match func(*model.Resource) bool) (items []model.Resource, more bool, err error) {
	return s.list(ctx, q, match, pageBytes)
}

// rowsPerQuery is the number of rows in one query of a long list.
const rowsPerQuery = 250

// list returns the resources of a kind that match a query. It returns at most q.Limit resources and about maxBytes (0
// means no limit).
func (s *Resources) list(ctx context.Context, q ListQuery, match func(*model.Resource) bool, maxBytes int) (out []model.Resource, more bool, err error) {
	limit, size := q.Limit, 0
	q.Limit = rowsPerQuery
	for row, err := range s.rows(ctx, q) {
		if err != nil {
			return nil, false, err
		}
		r, err := s.decode(row)
		if err != nil {
			return nil, false, err
		}
		if match != nil && !match(r) {
			continue
		}
		if limit > 0 && len(out) == limit || maxBytes > 0 && size > maxBytes {
			return out, true, nil
		}
		out = append(out, *r)
		size += len(row.Body)
	}
	return out, false, nil
}

// AuditEntry is one audit record of a changed resource.
type AuditEntry struct {
	Revision int64     `json:"revision"`
	Part     int       `json:"part"`
	At       time.Time `json:"at"`
	Actor    Actor     `json:"actor"`
	Key      Key       `json:"key"`
	Op       string    `json:"op"`
	Was      string    `json:"was,omitempty"` // the name before a rename
	Diff     string    `json:"diff,omitempty"`
}

// Audit returns audit records of changed resources, newest first. Each record has the difference of the change if the
// query asks for bodies. With redact, secrets in the differences are hidden.
func (s *Resources) Audit(ctx context.Context, q ChangeQuery, redact bool) ([]AuditEntry, error) {
	q.NotKinds = []string{"definition"} // compiled from recorded resources
	changes, err := s.opts.Store.ChangesBefore(ctx, q)
	if err != nil {
		return nil, err
	}
	out := make([]AuditEntry, len(changes))
	for i, c := range changes {
		if redact {
			c.Before, c.After = s.redactBody(c.Key, c.Before), s.redactBody(c.Key, c.After)
		}
		out[i] = AuditEntry{Revision: c.Revision, Part: c.Part, At: c.At, Actor: c.Actor, Key: c.Key, Op: c.Op, Was: c.Was, Diff: difference(c.Before, c.After)}
	}
	return out, nil
}

// String formats the key of a resource for messages, such as check/disk. Outside the default namespace the text is
// check/shared/disk.
func (k Key) String() string {
	text := strings.ToLower(k.Kind) + "/"
	if k.Namespace != "" && k.Namespace != "default" {
		text += k.Namespace + "/"
	}
	return text + k.Name
}

// KeyOf returns the database key (kind, namespace and name) of a resource.
func KeyOf(r *model.Resource) Key {
	key := Key{Kind: r.Kind, Namespace: r.Metadata.Namespace, Name: r.Metadata.Name}
	if key.Kind == "Namespace" {
		key.Namespace = ""
	} else if key.Namespace == "" {
		key.Namespace = model.DefaultNamespaceName
	}
	return key
}

// encode encodes a resource as JSON for its database row, without the fields that the server computes.
func encode(r *model.Resource) ([]byte, error) {
	body, err := json.Marshal(struct {
		APIVersion string         `json:"apiVersion"`
		Kind       string         `json:"kind"`
		Metadata   model.Metadata `json:"metadata"`
		Spec       model.Spec     `json:"spec"`
	}{model.APIVersion, r.Kind, r.Metadata, r.Spec})
	if err != nil {
		return nil, fmt.Errorf("encode the resource %s: %w", KeyOf(r), err)
	}
	return body, nil
}

// decode decodes the resource in a database row, with id, revision and times.
func (r *repository) decode(row Row) (*model.Resource, error) {
	var body struct {
		Metadata model.Metadata  `json:"metadata"`
		Spec     json.RawMessage `json:"spec"`
	}
	if err := json.Unmarshal(row.Body, &body); err != nil {
		return nil, fmt.Errorf("decode the stored resource %s: %w", row.Key, err)
	}
	spec, err := r.opts.Kinds.DecodeSpec(row.Kind, body.Spec)
	if err != nil {
		return nil, fmt.Errorf("decode the stored resource %s: %w", row.Key, err)
	}
	return &model.Resource{
		APIVersion: model.APIVersion, Kind: row.Kind, Metadata: body.Metadata, Spec: spec,
		Status: &model.ResourceStatus{ID: row.ID, Revision: row.Revision, Created: row.Created, Updated: row.Updated},
	}, nil
}

// decodeNode decodes a node's database row by plain JSON decoding, without looking up the resource kind Node.
func decodeNode(row Row) (*model.Resource, *model.NodeSpec, error) {
	spec := &model.NodeSpec{}
	r := &model.Resource{Spec: spec}
	if err := json.Unmarshal(row.Body, r); err != nil {
		return nil, nil, fmt.Errorf("decode the stored resource %s: %w", row.Key, err)
	}
	return r, spec, nil
}

// sameJSON reports whether two JSON texts have the same content.
func sameJSON(a, b []byte) bool {
	var x, y any
	if json.Unmarshal(a, &x) != nil || json.Unmarshal(b, &y) != nil {
		return bytes.Equal(a, b)
	}
	ax, _ := json.Marshal(x)
	by, _ := json.Marshal(y)
	return bytes.Equal(ax, by)
}

// redactBody returns the JSON of a resource with a placeholder in place of each secret. It returns nil if the
// JSON cannot be decoded.
func (r *repository) redactBody(key Key, body []byte) []byte {
	if len(body) == 0 {
		return nil
	}
	resource, err := r.decode(Row{Key: key, Body: body})
	if err != nil {
		return nil
	}
	out, err := encode(r.opts.Kinds.Redact(resource))
	if err != nil {
		return nil
	}
	return out
}

// difference returns the unified diff of two JSON texts of a resource. The diff is in YAML.
func difference(before, after []byte) string {
	if before == nil && after == nil {
		return ""
	}
	return udiff.Unified("before", "after", toYAML(before), toYAML(after))
}

// toYAML converts the JSON text of a resource to YAML
func toYAML(body []byte) string {
	if len(body) == 0 {
		return ""
	}
	text, err := document.YAML(body)
	if err != nil {
		return string(body) + "\n"
	}
	return string(text)
}

// runKind is the kind of database rows about runs that people ordered. Changes of the empty row named "run" record
// short runs; every other row is a long action that has begun and not ended.
const runKind = "run"

// unfinishedRun is the stored record of a person's long action that has not ended yet. An example is a run on
// many nodes.
type unfinishedRun struct {
	By       Actor  // By.Why names the action
	Picked   string // how many nodes or problems the action is about, for people
	Revision int64  // of the change that recorded its begin
}

// Runs records in the audit the checks, commands and bulk actions that people start
type Runs struct{ *repository }

// RecordRun records in the audit that a person runs a check or command. The caller records the run before the server
// sends it to the nodes.
func (s *Runs) RecordRun(ctx context.Context, by Actor) error {
	_, err := s.commit(ctx, by, []Write{{Key: Key{Kind: runKind, Name: "run"}, Body: []byte("{}"), Expect: -1}})
	return err
}

// BeginRun records the start of a long action in the audit. The record has the name and size of the action, such as
// "12 nodes". The caller calls ended with the outcome. If the server stops before that, CloseInterruptedRuns closes
// the record at the next start.
func (s *Runs) BeginRun(ctx context.Context, by Actor, picked, note string) (ended func(came string) error, err error) {
	key := Key{Kind: runKind, Name: uuid.NewString()}
	of := unfinishedRun{By: by, Picked: picked}
	body, err := json.Marshal(of)
	if err != nil {
		return nil, fmt.Errorf("BUG: encode the record of a long action: %w", err)
	}
	by.Message += ": " + picked + note
	done, err := s.commit(ctx, by, []Write{{Key: key, Body: body}})
	if err != nil {
		return nil, err
	}
	of.Revision = done.Revision
	ctx = context.WithoutCancel(ctx) // the outcome is recorded even if the caller has disconnected
	return func(came string) error {
		ctx, cancel := context.WithTimeout(ctx, closeRunTimeout)
		defer cancel()
		return s.closeRun(ctx, key, of, "", came)
	}, nil
}

// closeRunTimeout bounds the time to record the outcome of a long action.
const closeRunTimeout = 30 * time.Second

// closeRun records the end of a long action in the audit, and deletes the unfinished action's database row.
func (s *Runs) closeRun(ctx context.Context, key Key, of unfinishedRun, how, came string) error {
	by := of.By
	by.Message = fmt.Sprintf("%s, started in revision %d%s: %s", of.By.Message, of.Revision, how, came)
	_, err := s.commit(ctx, by, []Write{{Key: key, Expect: -1}})
	return err
}

// CloseInterruptedRuns records in the audit that the server's stop interrupted unfinished long actions. Call it at the
// start, before new actions begin.
func (s *Runs) CloseInterruptedRuns(ctx context.Context) error {
	for row, err := range s.rows(ctx, ListQuery{Kind: runKind}) {
		if err != nil {
			return err
		}
		if row.Name == "run" {
			continue
		}
		of := unfinishedRun{By: serverActor("something")}
		if err := json.Unmarshal(row.Body, &of); err != nil {
			return fmt.Errorf("decode the stored record %s: %w", row.Key, err)
		}
		of.Revision = row.Revision
		came := "the action may be incomplete for " + of.Picked + ", because the server stopped before it recorded the outcome; repeat the command for the rest (--dry-run lists it)"
		if err := s.closeRun(ctx, row.Key, of, " and interrupted", came); err != nil {
			return err
		}
		s.opts.Logger.Warn("the server stopped during an action; repeat the action", "user", of.By.User, "what", of.By.Message, "of", of.Picked, "revision", of.Revision)
	}
	return nil
}
