// Package sensuimport turns the files of `sensuctl dump`, and files for `sensuctl create -f`, into Muster's resources and
// reports line by line the fields that it could not carry.
//
// A file becomes objects (read_sensu_objects.go). One function per type reads the fields that it understands (check.go, handlers_and_pipelines.go,
// entities_users_and_secrets.go, …); a field that no function read is reported (read_sensu_objects.go). import.go translates names, javascript_expression.go
// expressions, check_schedule_and_subdues.go calendars. With ImportInto, objects may name resources that a server has (import.go).
//
// Pure: no goroutines, no locks, no files but the bytes passed in. Start reading at Import in import.go.
package sensuimport

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/conversion"
	"github.com/muster-fleet/muster/internal/kind"
	"github.com/muster-fleet/muster/internal/model"
)

// Result holds the Muster resources made by an import from Sensu, and notes about lost or changed parts.
type Result struct {
	conversion.Result     // a resource comes after those that it names
	Read              int `json:"read"` // resources of Sensu's in the files
}

// Import converts files with Sensu resources to Muster resources. kinds decide which resources are valid; now is the
// start of silences that end after a time. It fails on a file that holds no Sensu resource.
func Import(files []conversion.File, kinds *kind.Registry, now time.Time) (*Result, error) {
	return ImportInto(nil, files, kinds, now)
}

// ImportInto converts Sensu resources from files for a server that already has some of the resources. The files
// may refer to the server's resources, and the result omits those.
func ImportInto(server Lookup, files []conversion.File, kinds *kind.Registry, now time.Time) (*Result, error) {
	im := &importer{
		kinds: kinds, now: now.UTC().Truncate(time.Second), server: server, objectsByKey: map[resourceKey]*object{}, created: map[resourceKey]*model.Resource{},
		makers: map[resourceKey]*object{}, sensuNames: map[resourceKey]string{}, providers: map[string]secretProvider{},
	}
	for _, f := range files {
		list, err := readObjects(f.Name, f.Data)
		if err != nil {
			return nil, err
		}
		im.objects = append(im.objects, list...)
	}
	for i := range im.objects {
		o := &im.objects[i]
		o.importer = im
		for _, key := range o.repeated {
			o.noteChange("line %s: the key is repeated, and the last one counts, as in Sensu", key)
		}
		im.objectsByKey[resourceKey{o.kind, o.namespace, o.name}] = o
	}
	for _, t := range sensuTypes() {
		for i := range im.objects {
			if o := &im.objects[i]; o.kind == t.name && t.read != nil {
				t.read(o)
			}
		}
	}
	for _, finish := range []func(*object){importHandlerPipeline, (*object).noteUnread} {
		for i := range im.objects {
			finish(&im.objects[i])
		}
	}
	return im.finish(), im.serverError
}

// sensuType is a Sensu type with the function that imports its objects. Without a function, it can have a note that
// tells why Muster does not import the type. A type without function and note is left out silently.
type sensuType struct {
	name string
	read func(*object)
	note string
}

const (
	rolesNote   = "the roles are admin, operator, viewer, agent and alerts: see the users of the role"
	loginsNote  = "Muster has users of its own: muster auth user create NAME --role ROLE"
	secretsNote = "a Secret is in the environment, in files or in Vault: muster explain secret"
)

// omitObjects returns an import function that leaves an object out and adds a note with the given reason. The
// function adds a note with the reason.
func omitObjects(reason string) func(*object) {
	return func(o *object) {
		o.noteChange("left out: %s", reason)
		for name := range o.spec.values {
			o.spec.ignore(name)
		}
	}
}

// sensuTypes returns the types of Sensu resources in the order in which the import converts types. A type follows the
// types that it refers to.
func sensuTypes() []sensuType {
	return []sensuType{
		{"Namespace", importNamespace, ""},
		{"Asset", importAsset, ""},
		{"Hook", importHook, ""}, {"HookConfig", importHook, ""},
		{"Env", importProvider, ""}, {"VaultProvider", importProvider, ""}, {"Secret", importSecret, ""},
		{"EventFilter", importFilter, ""}, {"Mutator", importMutator, ""},
		{"Handler", importHandler, ""}, {"TCPStreamHandler", importStream, ""},
		{"Pipeline", importPipeline, ""},
		{"Check", importCheck, ""}, {"CheckConfig", importCheck, ""},
		{"Entity", importEntity, ""}, {"EntityConfig", importEntity, ""},
		{"Silenced", importSilence, ""},
		{"User", importUser, ""}, {"ClusterRoleBinding", importBinding, ""}, {"RoleBinding", importBinding, ""},

		{"Role", nil, rolesNote}, {"ClusterRole", nil, rolesNote},
		{"APIKey", nil, "create a token: muster auth token create --role operator"},
		{"Event", nil, "event states are not imported: the first result of each check creates them"},
		{"PostgresConfig", nil, "muster server --help: --intent-db and --history-db"},
		{"Cluster", nil, "one server replaces the federation"}, {"EtcdReplicator", nil, "one server replaces the federation"},
		{"RuleTemplate", nil, "business services are not supported"}, {"ServiceComponent", nil, "business services are not supported"},
		{"GlobalConfig", nil, "Muster has no web interface to configure"},
		{"Search", nil, "type the condition: muster get events --where"},
		{"SumoLogicMetricsHandler", nil, "Muster has no such handler"},
		{"FallbackPipeline", nil, "Muster has no such pipeline: name its pipelines in the checks, or pipelines of a namespace's keepalives"},
		{"ldap", nil, loginsNote}, {"ad", nil, loginsNote}, {"oidc", nil, loginsNote},
		{"CyberArkProvider", nil, secretsNote}, {"AWSProvider", nil, secretsNote},
		{"Integration", nil, "it describes files of a catalog: import the file sensu-resources.yaml beside it"},
		{"TessenConfig", omitObjects("Muster sends no usage data"), ""}, {"Tessen", omitObjects("Muster sends no usage data"), ""},
		{"LicenseFile", omitObjects("Muster needs no licence"), ""},
		{"EntityState", nil, ""}, // agents measure states
	}
}

// resourceKey identifies a resource of Sensu or Muster by type, namespace and name.
type resourceKey struct{ kind, namespace, name string }

// importer holds the Sensu objects read from the files, and the Muster resources made from the objects. Each
// object has a reference to the importer.
type importer struct {
	kinds        *kind.Registry
	now          time.Time
	objects      []object
	objectsByKey map[resourceKey]*object // Sensu's objects by type, namespace and name
	created      map[resourceKey]*model.Resource
	makers       map[resourceKey]*object // the first objects that need the resources
	order        []resourceKey
	sensuNames   map[resourceKey]string // Sensu's names by Muster's
	result       Result
	server       Lookup // nil: the files stand alone
	serverError  error  // the first error of server

	withoutTimeout []*object // checks

	providers map[string]secretProvider // of secrets
}

// noteLoss adds a note about a field of a Sensu object that Muster cannot import.
func (o *object) noteLoss(format string, args ...any) { o.note(true, format, args...) }

// noteChange adds a note about a field of a Sensu object that was imported in another form.
func (o *object) noteChange(format string, args ...any) { o.note(false, format, args...) }

// note adds a note about the Sensu object to the result of the import. lost means that a field was not
// imported.
func (o *object) note(lost bool, format string, args ...any) *conversion.Note {
	return o.importer.result.AddNote(o.file, o.line, o.title(), lost, format, args...)
}

// addResource adds a Muster resource to the Sensu object's namespace, unless the name is in use. The name may
// be in use in the files or on the server.
func (o *object) addResource(name string, spec model.Spec) *model.Resource {
	if r := o.findResource(spec.Kind(), name); r != nil {
		return r
	}
	at := resourceKey{spec.Kind(), o.targetNamespace(), name}
	r := &model.Resource{APIVersion: model.APIVersion, Kind: at.kind, Metadata: model.Metadata{Name: name, Namespace: at.namespace}, Spec: spec}
	o.importer.created[at], o.importer.makers[at] = r, o
	o.importer.order = append(o.importer.order, at)
	return r
}

// declareResource adds a Muster resource with the labels and annotations of the imported Sensu object. It also
// has the object's name.
func (o *object) declareResource(spec model.Spec) *model.Resource {
	r := o.addResource(o.uniqueName(spec.Kind(), o.name), spec)
	if r.Spec != spec {
		o.noteLoss("another %s has the name %s", r.Kind, r.Metadata.Name)
		return r
	}
	if r.Metadata.Name != o.name {
		r.Metadata.DisplayName = o.name
	}
	r.Metadata.Labels, r.Metadata.Annotations = metadataOf(o, "labels"), metadataOf(o, "annotations")
	return r
}

// metadataOf returns a Sensu object's labels or annotations, without the label that sensuctl adds. Annotations
// such as sensu.io/plugins/… are settings that plug-ins read.
func metadataOf(o *object, field string) map[string]string {
	out := map[string]string{}
	for k, v := range o.meta.labels(field) {
		switch err := model.LabelError(k, v); {
		case k == "sensu.io/managed_by":
		case err != nil && field == "labels":
			o.noteLoss("%v", err)
		case !model.IsLabelName(k):
			o.noteLoss("invalid annotation name %q: use letters, digits, and . _ - / between them", model.Shorten(k))
		default:
			out[k] = v
		}
	}
	return nonEmpty(out)
}

// nonEmpty returns the map, or nil if the map is empty.
func nonEmpty(m map[string]string) map[string]string {
	if len(m) == 0 {
		return nil
	}
	return m
}

// importNamespace imports a namespace other than default.
func importNamespace(o *object) {
	if name := cmp.Or(o.spec.text("name"), o.name); name != "default" {
		o.name, o.namespace = name, ""
		o.declareResource(&model.NamespaceSpec{})
	}
}

// noteUnread adds a note about every non-empty field of a Sensu object that the import ignored. For a type that
// is not imported the note has the reason.
func (o *object) noteUnread() {
	types := sensuTypes()
	i := slices.IndexFunc(types, func(t sensuType) bool { return t.name == o.kind })
	switch {
	case i < 0:
		o.noteLoss("unknown type")
	case types[i].read != nil:
		for _, text := range append(o.spec.unreadFields(), o.meta.unreadFields()...) {
			o.noteLoss("not imported: %s", text)
		}
	case types[i].note != "":
		o.noteLoss("%s", types[i].note)
	}
}

// finish returns the importable resources, ordered by their dependencies, and the notes. The resources are in the
// order of their dependencies. A resource that requires one which is left out is left out too, so that the result can
// be applied.
func (im *importer) finish() *Result {
	if list := im.withoutTimeout; len(list) > 0 {
		list[0].noteChange("%s, as in Sensu: a command that hangs sends no result", model.CountNoun(len(list), "check")+map[bool]string{true: " has no timeout", false: ", from this one on, have no timeout"}[len(list) == 1])
	}
	im.addNamespaces()
	refused := map[resourceKey]bool{}
	for changed := true; changed; {
		changed = false
		for _, at := range im.order {
			if reason := im.refusal(at, refused); !refused[at] && reason != "" {
				im.makers[at].noteLoss("%s %s is left out: %s", at.kind, strings.TrimPrefix(at.namespace+"/"+at.name, "/"), reason)
				refused[at], changed = true, true
			}
		}
	}
	out := &im.result
	out.Read = len(im.objects)
	for _, kind := range im.kinds.Kinds() {
		for _, at := range im.order {
			if at.kind == kind.Name && !refused[at] {
				out.Resources = append(out.Resources, im.created[at])
			}
		}
	}
	out.SortNotes()
	return out
}

// addNamespaces adds the namespaces that the files mention but do not contain. The dump of one namespace, for example,
// does not contain the namespace.
func (im *importer) addNamespaces() {
	if im.server != nil {
		return
	}
	for _, at := range im.order {
		key := resourceKey{"Namespace", "", at.namespace}
		if at.namespace == "" || at.namespace == model.DefaultNamespaceName || im.created[key] != nil {
			continue
		}
		by := im.makers[at]
		by.noteChange("namespace %s is not in these files: the import adds the namespace", at.namespace)
		im.created[key] = &model.Resource{APIVersion: model.APIVersion, Kind: key.kind, Metadata: model.Metadata{Name: key.name}, Spec: &model.NamespaceSpec{}}
		im.makers[key], im.order = by, append(im.order, key)
	}
}

// refusal returns why Muster would refuse an imported resource, or an empty text.
func (im *importer) refusal(at resourceKey, refused map[resourceKey]bool) string {
	r := im.created[at]
	if err := im.kinds.Validate(r); err != nil {
		return "Muster refuses the resource: " + strings.Join(strings.Fields(err.Error()), " ")
	}
	if refused[resourceKey{"Namespace", "", at.namespace}] {
		return "its namespace is left out"
	}
	for _, ref := range im.kinds.References(r) {
		if ref.Required && refused[resourceKey{ref.Kind, ref.Namespace, ref.Name}] {
			return fmt.Sprintf("%s names %s %s, which is left out", ref.Field, ref.Kind, ref.Name)
		}
	}
	return ""
}

// targetNamespace returns the Muster namespace for the resources made from a Sensu object.
func (o *object) targetNamespace() string {
	if o.kind == "Namespace" {
		return ""
	}
	return cmp.Or(model.CleanName(o.namespace), "default")
}

// uniqueName converts a Sensu name to a valid and unused Muster name. A Sensu name may have capitals and colons. A
// note reports two names of Sensu's that become the same name.
func (o *object) uniqueName(kind, name string) string {
	clean := cmp.Or(model.CleanName(name), "unnamed")
	at := resourceKey{kind, cmp.Or(o.targetNamespace(), "default"), clean}
	switch first, ok := o.importer.sensuNames[at]; {
	case !ok:
		o.importer.sensuNames[at] = name
		if clean != name {
			o.noteChange("%s is renamed %s: a name has only lower-case letters, digits, and . _ -", name, clean)
		}
	case first != name:
		o.noteLoss("%s and %s have the same name here, %s", first, name, clean)
	}
	return clean
}

// musterName converts a Sensu name to a valid Muster name.
func musterName(sensu string) string { return cmp.Or(model.CleanName(sensu), "unnamed") }

// subscriptionGroup returns the name of the Muster node group made from a Sensu subscription. At the first use,
// it adds the group. Agents may join the group by themselves, as agents of Sensu choose their subscriptions.
func (o *object) subscriptionGroup(subscription string) string {
	clean := o.uniqueName("Group", subscription)
	o.addResource(clean, &model.GroupSpec{SelfJoin: true})
	return clean
}

// Lookup is a function that looks up an existing resource on the server. It returns nil if the resource does not
// exist.
type Lookup func(kind, namespace, name string) (*model.Resource, error)

// findResource returns an imported resource, or else a resource from the server, in the object's namespace. If
// the resource does not exist, it returns nil.
func (o *object) findResource(kind, name string) *model.Resource {
	if r := o.importer.created[resourceKey{kind, o.targetNamespace(), name}]; r != nil {
		return r
	}
	return o.findOnServer(kind, name)
}

// findOnServer returns an existing resource of the Muster server in the namespace of the imported object. The
// first error of the server ends the import.
func (o *object) findOnServer(kind, name string) (r *model.Resource) {
	im := o.importer
	if im.server == nil || im.serverError != nil {
		return nil
	}
	r, im.serverError = im.server(kind, o.targetNamespace(), name)
	return r
}

// noteMissing adds a note about a reference to a missing resource. use is the type of results for a hook, else empty.
func (o *object) noteMissing(kind, name, use string) {
	n := o.note(true, "%s %s %s", kind, name, o.absenceText())
	n.Missing = strings.TrimSpace(kind + " " + model.CleanName(name) + " " + use)
}

// noteStub adds a note that a missing filter or mutator blocks all events of its workflow. In its place the
// import makes a filter or mutator that passes no event.
func (o *object) noteStub(kind, name string) {
	n := o.note(true, "%s %s %s: the workflow passes no event until you write the resource", kind, name, o.absenceText())
	n.Missing = kind + " " + model.CleanName(name)
}

// absenceText returns words such as "does not exist yet", for a note about a missing resource.
func (o *object) absenceText() string {
	if o.importer.server != nil {
		return "does not exist yet"
	}
	return "is not in these files"
}

// existingHandler converts a handler or handler set that exists on the server to an object in Sensu's format.
// The object has the filters and mutator of the handler's own pipeline. A handler that sends messages by itself
// has no pipeline and gets incidents. nil: the server has no such handler.
func existingHandler(o *object, handler string) *object {
	h := o.findOnServer("Handler", musterName(handler))
	own := o.findOnServer("Pipeline", PipelineOf(handler))
	if h == nil && (own == nil || own.Metadata.Annotations[SetOf] == "") {
		return nil
	}
	spec := map[string]any{}
	switch {
	case h == nil:
		spec["type"], spec["handlers"] = "set", anyList(strings.Split(own.Metadata.Annotations[SetOf], ", "))
	case own != nil && len(own.Spec.(*model.PipelineSpec).Workflows) == 1:
		flow := own.Spec.(*model.PipelineSpec).Workflows[0]
		spec["filters"], spec["mutator"] = anyList(flow.Filters), flow.Mutator
	case !readsEvents(h.Spec.(*model.HandlerSpec)):
		spec["filters"] = []any{model.FilterIncident, model.FilterNotSilenced}
	}
	return &object{importer: o.importer, kind: "Handler", name: handler, namespace: o.namespace, spec: newFields("", spec)}
}

// anyList converts a []string to a []any.
func anyList(texts []string) (list []any) {
	for _, t := range texts {
		list = append(list, t)
	}
	return list
}

// routeToExisting makes a check's problems or events reach a handler that already exists on the Muster server.
// The events go by the handler's pipeline, or by the check's alert if it is a built-in handler. false: the
// server has no such handler.
func routeToExisting(o *object, c *model.CheckSpec, handler string, filters []string) bool {
	if o.handlerNamed(handler) != nil {
		return false
	}
	pipeline := PipelineOf(handler)
	if p := o.findOnServer("Pipeline", pipeline); p != nil {
		if slices.Contains(c.Pipelines, pipeline) {
			return true
		}
		if len(filters) > 0 {
			pipeline += "-metrics"
			o.addResource(pipeline, &model.PipelineSpec{Workflows: withFilters(p.Spec.(*model.PipelineSpec).Workflows, filters)})
		}
		c.Pipelines = appendNew(c.Pipelines, pipeline)
		return true
	}
	h := o.findOnServer("Handler", musterName(handler))
	if h == nil || readsEvents(h.Spec.(*model.HandlerSpec)) || len(filters) > 0 {
		return false
	}
	alert := ensureAlert(c)
	alert.Handlers = appendNew(alert.Handlers, h.Metadata.Name)
	return true
}

// PipelineOf returns the name of the Muster pipeline that the import makes for a Sensu handler. An import
// creates this pipeline for a handler that reads events in Sensu's format.
func PipelineOf(handler string) string { return model.SensuPipeline(musterName(handler)) }

// withFilters returns copies of workflows with additional filters after their own filters.
func withFilters(flows []model.Workflow, filters []string) []model.Workflow {
	out := slices.Clone(flows)
	for i := range out {
		out[i].Filters = slices.Concat(out[i].Filters, filters)
	}
	return out
}
