package sensuctl

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/lint"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/sensuimport"
)

// converted is what became of one of Sensu's resources.
type converted struct {
	name   string // as it is called here
	main   *model.Resource
	beside []*model.Resource // what it needs, and is not there yet
	lost   []string
}

// put is what sensuctl create -f does with each resource, and sensuctl check create.
func (s *Server) put(ctx context.Context, r *request) (answer, error) {
	if r.kind == "namespaces" && r.name(0) == model.DefaultNamespaceName {
		return answer{http.StatusOK, nil, ""}, nil
	}
	var made *converted
	err := again(ctx, func() (err error) {
		made, err = s.write(ctx, r)
		return err
	})
	if err != nil || made == nil {
		return answer{http.StatusOK, nil, ""}, err
	}
	if r.kind == "handlers" || r.kind == "hooks" || r.kind == "pipelines" || r.kind == "assets" {
		if err := again(ctx, func() error { return s.arrived(ctx, r, made) }); err != nil {
			return answer{}, err
		}
	}
	if r.kind == "handlers" {
		if err := again(ctx, func() error { return s.regroup(ctx, r, made.name) }); err != nil {
			return answer{}, err
		}
	}
	return answer{http.StatusCreated, nil, ""}, nil
}

// again repeats what reads and then writes while somebody else wrote in between: then that one got on.
func again(ctx context.Context, do func() error) error {
	for {
		if err := do(); model.ClassOf(err) != model.Stale || ctx.Err() != nil {
			return err
		}
	}
}

// write applies what is sent; nil: it is so already.
func (s *Server) write(ctx context.Context, r *request) (*converted, error) {
	same, err := s.unchanged(ctx, r)
	if err != nil || same {
		return nil, err
	}
	doc, err := s.sent(r)
	if err != nil {
		return nil, err
	}
	made, err := s.convert(ctx, r, doc)
	if err != nil {
		return nil, err
	}
	shown, err := s.shown(ctx, r)
	switch {
	case errors.As(err, new(*refusal)):
		made.main, err = s.merged(ctx, r, nil, made.main)
	case err == nil && shown != nil:
		err = s.keep(ctx, r, made, doc, shown)
	}
	if err != nil {
		return nil, err
	}
	if r.Method == http.MethodPost {
		if _, err := resource(ctx, r, made.main.Kind, made.main.Metadata.Namespace, made.main.Metadata.Name); err == nil {
			return nil, model.Errorf(model.Conflict, "there is a %s %s already", made.main.Kind, made.main.Metadata.Name)
		}
	}
	return made, s.apply(ctx, r, made)
}

// putSilence makes a silence, or makes the one that covers the same so.
func (s *Server) putSilence(ctx context.Context, r *request) (answer, error) {
	same, err := s.unchanged(ctx, r)
	if err != nil || same {
		return answer{http.StatusOK, nil, ""}, err
	}
	made, was, err := s.silenceAsked(ctx, r)
	if err != nil {
		return answer{}, err
	}
	if was == nil {
		return s.newSilence(ctx, r, made)
	}
	made.main.Metadata.Name, made.beside = was.Metadata.Name, nil
	return answer{http.StatusCreated, nil, ""}, s.apply(ctx, r, made)
}

// apply goes the way of muster apply. What was not carried is told where it will be looked for:
// as an annotation, and with the recorded change.
func (s *Server) apply(ctx context.Context, r *request, made *converted) error {
	in := v1.ApplyRequest{Message: "by sensuctl"}
	if len(made.lost) > 0 {
		text := strings.Join(made.lost, "; ")
		annotate(made.main, notCarried, made.lost, "; ")
		in.Message = cut("by sensuctl; not carried: "+text, 900)
		s.log.Warn("sensuctl: not carried", "user", r.user, "kind", made.main.Kind, "namespace", made.main.Metadata.Namespace, "name", made.main.Metadata.Name, "what", text)
	}
	return s.send(ctx, r, in, append(made.beside, made.main))
}

// send applies resources: those that were read only if nobody has changed them since.
func (s *Server) send(ctx context.Context, r *request, in v1.ApplyRequest, list []*model.Resource) error {
	for _, m := range list {
		data, err := json.Marshal(m)
		if err != nil {
			return err
		}
		in.Resources = append(in.Resources, data)
		if m.Status != nil {
			in.Expect = append(in.Expect, v1.Expected{Ref: v1.Ref{Kind: m.Kind, Namespace: m.Metadata.Namespace, Name: m.Metadata.Name}, Revision: m.Status.Revision})
		}
	}
	_, err := r.muster.Apply(ctx, in)
	return byHand(err, applyByHand)
}

func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most-3], "") + "…"
}

// convert makes of a document what an import would.
func (s *Server) convert(ctx context.Context, r *request, doc *document) (*converted, error) {
	if doc.kind == "Handler" && doc.spec["type"] == "set" {
		return s.set(ctx, r, doc)
	}
	there, err := s.there(ctx, r, doc)
	if err != nil {
		return nil, err
	}
	made, err := doc.convert(there, s)
	if err != nil {
		return nil, err
	}
	if doc.kind == "CheckConfig" {
		annotate(made.main, waitsFor, doc.waits(there), ", ")
	}
	missing := made.beside[:0]
	for _, m := range made.beside { // what was declared here stays as it is
		_, err := resource(ctx, r, m.Kind, m.Metadata.Namespace, m.Metadata.Name)
		switch {
		case model.ClassOf(err) == model.NotFound, m.Kind == "Pipeline" && doc.kind == "Handler":
			missing = append(missing, m)
		case err != nil:
			return nil, err
		}
	}
	made.beside = missing
	return made, nil
}

func sensuName(r *request) string {
	if len(r.names) == 0 {
		return ""
	}
	return r.names[0]
}

// document is one of Sensu's resources as it came.
type document struct {
	kind, namespace, name string
	spec, meta            object
}

// parseBody reads a resource, wrapped as {type, api_version, metadata, spec} or not. Where the
// path names it, that is its name.
func parseBody(data []byte, sensu, namespace, name string) (*document, error) {
	var body object
	if err := json.Unmarshal(data, &body); err != nil || body == nil {
		return nil, model.Errorf(model.Invalid, "the body is no JSON object")
	}
	d := &document{kind: sensu, namespace: namespace, name: name, spec: body}
	if spec, ok := body["spec"].(object); ok && body["type"] != nil {
		d.spec = spec
		d.meta, _ = body["metadata"].(object)
	}
	if inner, ok := d.spec["metadata"].(object); ok && len(d.meta) == 0 {
		d.meta = inner
	}
	delete(d.spec, "metadata")
	if d.meta == nil {
		d.meta = object{}
	}
	if d.name == "" {
		d.name, _ = d.meta["name"].(string)
	}
	if d.name == "" && sensu == "Namespace" {
		d.name, _ = d.spec["name"].(string)
	}
	if d.name == "" && sensu == "Silenced" {
		subscription, _ := d.spec["subscription"].(string)
		check, _ := d.spec["check"].(string)
		d.name = orStar(subscription) + ":" + orStar(check)
	}
	if annotations, ok := d.meta["annotations"].(object); ok {
		delete(annotations, notCarried)
		delete(annotations, waitsFor)
	}
	d.meta["name"], d.meta["namespace"] = d.name, namespace
	return d, nil
}

func orStar(text string) string {
	if text == "" {
		return "*"
	}
	return text
}

// convert imports the document beside what is there.
func (d *document) convert(there []*model.Resource, s *Server) (*converted, error) {
	files := []sensuimport.File{d.file(d.kind, d.name, d.spec)}
	if d.kind == "Handler" {
		files = append(files, d.file("Pipeline", sensuimport.PipelineOf(d.name), d.workflows()))
	}
	got, err := sensuimport.ImportBeside(files, there, lint.Rules(), s.now())
	if err != nil {
		return nil, err
	}
	out := &converted{name: model.CleanName(d.name)}
	var said []string
	for _, n := range got.Notes {
		text := strings.Replace(n.Text, "is not in these files", "is not there yet", 1)
		if n.Lost {
			out.lost = append(out.lost, text)
		}
		said = append(said, text)
	}
	want := kinds[d.kind]
	for _, m := range got.Resources {
		if m.Kind == want && out.main == nil && (m.Metadata.Name == model.CleanName(d.name) || d.kind == "Silenced") {
			out.main = m
			continue
		}
		out.beside = append(out.beside, m)
	}
	if d.kind == "Handler" {
		out.onlyWhatReads(d)
	}
	if out.main == nil {
		return nil, model.Errorf(model.Invalid, "nothing of this %s can be kept here: %s", d.kind, cut(strings.Join(said, "; "), 900)).WithHint("muster import sensu FILE says it line by line; muster help lists the commands")
	}
	return out, nil
}

func (d *document) file(kind, name string, spec object) sensuimport.File {
	meta := object{"name": name, "namespace": d.namespace}
	if kind == d.kind {
		meta = d.meta
	}
	data, _ := json.Marshal(object{"type": kind, "api_version": "core/v2", "metadata": meta, "spec": spec}) // came as JSON
	return sensuimport.File{Name: "sensuctl", Data: data}
}

// workflows are those of the pipeline that lets a handler hear: with its filters and mutator.
func (d *document) workflows() object {
	filters := []any{}
	for _, f := range texts(d.spec["filters"]) {
		filters = append(filters, object{"name": f})
	}
	flow := object{"name": d.name, "handler": object{"name": d.name}, "filters": filters}
	if m, _ := d.spec["mutator"].(string); m != "" {
		flow["mutator"] = object{"name": m}
	}
	return object{"workflows": []any{flow}}
}

// onlyWhatReads takes the pipeline of a handler away that speaks for itself, as an import does.
func (c *converted) onlyWhatReads(d *document) {
	for i, m := range c.beside {
		if m.Kind != "Pipeline" {
			continue
		}
		if c.main == nil {
			return
		}
		h, _ := c.main.Spec.(*model.HandlerSpec)
		if h != nil && speaks(h) && onlyIncidents(texts(d.spec["filters"])) {
			c.beside = append(c.beside[:i], c.beside[i+1:]...)
			return
		}
	}
}

// speaks says whether a handler speaks for itself, where others read Sensu's events.
func speaks(h *model.HandlerSpec) bool {
	return h.Command == nil && h.TCP == nil && h.UDP == nil && h.Stream == nil
}

func onlyIncidents(filters []string) bool {
	for _, f := range filters {
		if f != model.FilterIncident && f != model.FilterNotSilenced {
			return false
		}
	}
	return true
}
