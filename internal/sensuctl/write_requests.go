package sensuctl

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/conversion"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/sensuimport"
)

// owner is the owner of all resources that sensuctl writes.
const owner = "sensu"

// Annotations of a resource that sensuctl wrote.
const (
	lossAnnotation    = "sensuctl/not-carried" // the fields that Muster does not have, "; " between them
	missingAnnotation = "sensuctl/waits-for"   // resources that it names and that did not exist: dependent_resources.go

	workflowsAnnotation = "sensuctl/workflows" // the workflows of a pipeline, in Sensu's form, while some wait for handlers
)

// importedDocument is a Sensu document converted to Muster resources.
type importedDocument struct {
	main              *model.Resource
	neededResources   []*model.Resource // resources that main needs and that did not exist
	lostFields        []string          // for lossAnnotation
	missingReferences []string          // for missingAnnotation
	workflows         string            // for workflowsAnnotation
}

// putResource creates or replaces a resource for the command sensuctl create -f. All sensuctl commands that
// change a resource use it.
func (r *request) putResource() (answer, error) {
	unchanged := answer{status: http.StatusOK}
	if r.kind == "namespaces" && r.name(0) == model.DefaultNamespaceName {
		return unchanged, nil
	}
	doc, same, err := r.readDocument()
	if err != nil || same {
		return unchanged, err
	}
	err = r.retryOnConflict(func() error { return r.createResource(doc) })
	if err == nil {
		err = r.retryOnConflict(func() error { return r.importDependents(model.CleanName(doc.name)) })
	}
	return answer{}, err
}

// retryOnConflict repeats a function that writes a resource until no concurrent write interferes. The function reads the
// resource first. The loop ends, because one writer succeeds in each round.
func (r *request) retryOnConflict(do func() error) error {
	for {
		r.clearCache()
		if err := do(); err == nil || model.ClassOf(err) != model.Stale || r.Context().Err() != nil {
			return err
		}
	}
}

// createResource creates the resource in a document from sensuctl, or replaces the resource of the same name.
func (r *request) createResource(doc *document) error {
	made, err := r.convertDocument(doc)
	if err != nil {
		return err
	}
	is, err := r.findResource(made.main.Kind, made.main.Metadata.Namespace, made.main.Metadata.Name)
	switch {
	case err != nil:
		return err
	case is == nil:
		return r.applyDocuments(made)
	case r.Method == http.MethodPost:
		return model.Errorf(model.Conflict, "the resource %s %s already exists", made.main.Kind, made.main.Metadata.Name)
	}
	return r.replaceResource(is, made)
}

// replaceResource replaces an existing resource by an imported document. It returns an error if sensuctl must not
// replace the resource, or the resource has changed since.
func (r *request) replaceResource(is *model.Resource, made *importedDocument) error {
	if err := r.checkReplaceable(is); err != nil {
		return err
	}
	if err := r.keepUndeclaredNodeFields(made.main, is); err != nil {
		return err
	}
	made.main.Status = is.Status
	return r.applyDocuments(made)
}

// applyDocuments applies the Muster resources made from Sensu documents through Muster's API. Fields that were
// not carried are recorded in an annotation, the audit log and the server's log.
func (r *request) applyDocuments(list ...*importedDocument) error {
	in := v1.ApplyRequest{ChangeOptions: r.server.changeOptions(), Owner: owner}
	for _, made := range list {
		setListAnnotation(made.main, missingAnnotation, made.missingReferences, ", ")
		setListAnnotation(made.main, workflowsAnnotation, slices.DeleteFunc([]string{made.workflows}, func(s string) bool { return s == "" }), "")
		setListAnnotation(made.main, lossAnnotation, made.lostFields, "; ")
		if len(made.lostFields) > 0 {
			text := strings.Join(made.lostFields, "; ")
			in.Message = truncate("by sensuctl; not carried: "+text, 900)
			r.server.log.Warn("sensuctl: not carried", "user", r.user, "kind", made.main.Kind, "namespace", made.main.Metadata.Namespace, "name", made.main.Metadata.Name, "what", text)
		}
		for _, m := range append(made.neededResources, made.main) {
			data, err := json.Marshal(m)
			if err != nil {
				return err
			}
			in.Resources = append(in.Resources, data)
			if m.Status != nil {
				in.Expect = append(in.Expect, v1.Expected{Ref: refOf(m), Revision: m.Status.Revision})
			}
		}
	}
	_, err := r.muster.Resources.Apply(r.Context(), in)
	return addCommandHint(err, applyCommand)
}

// changeOptions returns the audit message and the limit of affected nodes for a change by sensuctl.
func (s *Server) changeOptions() v1.ChangeOptions {
	return v1.ChangeOptions{Message: "by sensuctl", MaxAffected: s.maxAffected, Yes: s.maxAffected == 0}
}

// refOf returns the kind, namespace and name by which other resources refer to a resource.
func refOf(m *model.Resource) v1.Ref {
	return v1.Ref{Kind: m.Kind, Namespace: m.Metadata.Namespace, Name: m.Metadata.Name}
}

// maxAnnotation bounds an annotation, in bytes.
const maxAnnotation = 16 << 10

// setListAnnotation stores a list in an annotation of a resource, joined by a separator. An empty list removes the
// annotation.
func setListAnnotation(m *model.Resource, name string, list []string, separator string) {
	if len(list) == 0 {
		delete(m.Metadata.Annotations, name)
		return
	}
	if m.Metadata.Annotations == nil {
		m.Metadata.Annotations = map[string]string{}
	}
	m.Metadata.Annotations[name] = truncate(strings.Join(list, separator), maxAnnotation)
}

// splitList splits the value of an annotation, texts joined by commas, into a list.
func splitList(annotation string) []string {
	if annotation == "" {
		return nil
	}
	return strings.Split(annotation, ", ")
}

// truncate cuts a string to at most a number of bytes.
func truncate(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most-3], "") + "…"
}

// maxLookups bounds the resources that one document may name.
const maxLookups = 500

// convertDocument converts a Sensu document to Muster resources in a namespace. The import does not see the resource
// of the document's own name, because the document replaces it whole.
func (r *request) convertDocument(doc *document) (*importedDocument, error) {
	name, kind := model.CleanName(doc.name), doc.muster
	own := sensuimport.PipelineOf(doc.name)
	set := kind == "Handler" && doc.spec["type"] == "set"
	if set {
		kind, name = "Pipeline", own
	}
	lookups := 0
	server := func(k, namespace, n string) (*model.Resource, error) {
		if k == kind && n == name || k == "Window" || doc.kind == "Handler" && k == "Pipeline" && n == own {
			return nil, nil // the import makes these anew
		}
		if lookups++; lookups > maxLookups {
			return nil, model.Errorf(model.TooLarge, "%s %s names more than %d resources", doc.kind, doc.name, maxLookups)
		}
		return r.findResource(k, namespace, n)
	}
	got, err := sensuimport.ImportInto(server, []conversion.File{doc.importFile()}, r.server.kinds, r.server.now())
	if err != nil {
		return nil, err
	}
	made := &importedDocument{}
	var notes []string
	for _, n := range got.Notes {
		if n.NotImported {
			made.lostFields = append(made.lostFields, n.Text)
		}
		if n.Missing != "" && kind != "Node" && len(made.missingReferences) < maxLookups && !slices.Contains(made.missingReferences, n.Missing) {
			made.missingReferences = append(made.missingReferences, n.Missing)
		}
		notes = append(notes, n.Text)
	}
	for _, m := range got.Resources {
		if m.Kind == kind && made.main == nil && (m.Metadata.Name == name || doc.kind == "Silenced") {
			made.main = m
			continue
		}
		made.neededResources = append(made.neededResources, m)
	}
	if made.main == nil {
		return nil, model.Errorf(model.Invalid, "Muster cannot store the %s %s: %s", doc.kind, model.Shorten(doc.name), truncate(strings.Join(notes, "; "), 900)).
			WithHint("see each line: muster import sensu FILE; list the commands: muster help")
	}
	if doc.kind == "Pipeline" && len(made.missingReferences) > 0 {
		kept, err := json.Marshal(doc.spec["workflows"])
		if err != nil || len(kept) > maxAnnotation {
			return nil, model.Errorf(model.Invalid, "pipeline %s refers to missing resources and is too long for temporary storage: create the missing resources first", model.Shorten(doc.name)).WithHint("create its handlers, filters and mutators first")
		}
		made.workflows = string(kept)
	}
	return made, checkHandlerKind(r, doc, made, set)
}

// checkHandlerKind returns an error if a new handler set would replace an ordinary handler of the same name. A plain
// handler must not replace a set, either.
func checkHandlerKind(r *request, doc *document, made *importedDocument, set bool) error {
	if doc.kind != "Handler" {
		return nil
	}
	kind, name := "Handler", model.CleanName(doc.name)
	if !set {
		kind, name = "Pipeline", sensuimport.PipelineOf(doc.name)
	}
	m, err := r.findResource(kind, made.main.Metadata.Namespace, name)
	if err != nil || m == nil || !set && m.Metadata.Annotations[sensuimport.SetOf] == "" {
		return err
	}
	return refuseChange(m, "a handler cannot become a set, nor a set a handler", "delete")
}

// deleteResource deletes a resource at the request of sensuctl. It deletes a handler together with the pipeline
// that sends it events.
func (r *request) deleteResource() (answer, error) {
	m, err := r.findResource(sensuTypes[r.kind].kind, r.namespace, r.name(0))
	if err != nil {
		return answer{}, err
	}
	list := []*model.Resource{m}
	if r.kind == "handlers" {
		own, err := r.findResource("Pipeline", r.namespace, model.SensuPipeline(r.name(0)))
		if err != nil {
			return answer{}, err
		}
		if own != nil {
			set, flows := own.Metadata.Annotations[sensuimport.SetOf] != "", own.Spec.(*model.PipelineSpec).Workflows
			if m == nil && set || m != nil && !set && len(flows) == 1 && flows[0].Handler == m.Metadata.Name {
				list = append(list, own)
			}
		}
	}
	refs := []v1.Ref{}
	for _, m := range list {
		switch {
		case m == nil:
		case m.Metadata.Owner != "" && m.Metadata.Owner != owner:
			return answer{}, refuseChange(m, "it belongs to "+m.Metadata.Owner, "delete")
		default:
			refs = append(refs, refOf(m))
		}
	}
	if len(refs) == 0 { // the API decides between not found and forbidden
		refs = append(refs, v1.Ref{Kind: sensuTypes[r.kind].kind, Namespace: r.namespace, Name: r.name(0)})
	}
	_, err = r.muster.Resources.DeleteMany(r.Context(), v1.DeleteRequest{ChangeOptions: r.server.changeOptions(), Resources: refs})
	return answer{}, addCommandHint(err, musterCommand("delete", refs[0], "--yes"))
}
