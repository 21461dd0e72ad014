package sensuimport

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/model"
)

// File is one file of Sensu's, under the name that people know it by.
type File struct {
	Name string
	Data []byte
}

// Note is what somebody should know of one resource of Sensu's.
type Note struct {
	Where string // FILE:LINE
	What  string // CheckConfig default/disk
	Text  string
	Lost  bool // it was not carried; else it was, in another way than one might think
}

// Result is what becomes of some files.
type Result struct {
	Resources []*model.Resource // valid each by itself; in the order in which they build on each other
	Notes     []Note            // in the order of the files
	Read      int               // resources of Sensu's
}

// Lost counts what was not carried.
func (r *Result) Lost() (n int) {
	for _, note := range r.Notes {
		if note.Lost {
			n++
		}
	}
	return n
}

// Import translates files. rules say what is wrong with a resource; now is what silences that
// end after a time are counted from. The error is of a file that is none of Sensu's.
func Import(files []File, rules model.Rules, now time.Time) (*Result, error) {
	return ImportBeside(files, nil, rules, now)
}

// ImportBeside is Import where some resources are there already: files may name them, and none
// of them is in the result.
func ImportBeside(files []File, there []*model.Resource, rules model.Rules, now time.Time) (*Result, error) {
	im := &importer{providers: map[string]provider{}, hookAssets: map[made][]string{}, hookNamed: map[made]bool{}, rules: rules, now: now.UTC().Truncate(time.Second), by: map[key]*object{}, made: map[made]*model.Resource{}, names: map[made]string{}, props: map[string]map[string]placeholder{}}
	for _, r := range there {
		im.made[made{r.Kind, r.Metadata.Namespace, r.Metadata.Name}] = r
	}
	im.beside = len(there) > 0
	for _, f := range files {
		list, err := read(f.Name, f.Data)
		if err != nil {
			return nil, err
		}
		im.objects = append(im.objects, list...)
	}
	for i := range im.objects {
		o := &im.objects[i]
		im.by[key{o.kind, o.namespace, o.name}] = o
	}
	for _, kind := range order {
		for i := range im.objects {
			if o := &im.objects[i]; o.kind == kind.name {
				kind.take(im, o)
			}
		}
	}
	im.assetsOfHooks()
	im.unnamed()
	im.unknown()
	im.leftovers()
	return im.result(), nil
}

// order is that in which types are taken: what is named comes before what names it, but for
// entities, which come after the checks whose tokens say what of them is needed.
var order = [...]struct {
	name string
	take func(*importer, *object)
}{
	{"Namespace", (*importer).namespace},
	{"Asset", (*importer).asset},
	{"Hook", (*importer).hook}, {"HookConfig", (*importer).hook},
	{"Env", (*importer).provider}, {"VaultProvider", (*importer).provider}, {"Secret", (*importer).secret},
	{"EventFilter", (*importer).filter}, {"Mutator", (*importer).mutator},
	{"Handler", (*importer).handler}, {"TCPStreamHandler", (*importer).stream},
	{"Pipeline", (*importer).pipeline},
	{"Check", (*importer).check}, {"CheckConfig", (*importer).check},
	{"Entity", (*importer).entity}, {"EntityConfig", (*importer).entity},
	{"Silenced", (*importer).silenced},
	{"User", (*importer).user}, {"ClusterRoleBinding", (*importer).binding}, {"RoleBinding", (*importer).binding},
}

// why a type is not carried.
var others = map[string]string{
	"Role":                    "the roles are admin, operator, viewer, agent and alerts: see who is bound to it",
	"ClusterRole":             "the roles are admin, operator, viewer, agent and alerts: see who is bound to it",
	"APIKey":                  "make a token: muster auth token create --role operator",
	"Event":                   "states are not imported: the first result of each check makes them",
	"PostgresConfig":          "muster server --help: --intent-db and --history-db",
	"Cluster":                 "one server holds what a federation did",
	"EtcdReplicator":          "one server holds what a federation did",
	"RuleTemplate":            "business services are not there",
	"ServiceComponent":        "business services are not there",
	"GlobalConfig":            "there is no web interface to configure",
	"Search":                  "type the condition: muster get events --where",
	"EntityState":             "measured by the agent",
	"SumoLogicMetricsHandler": "there is no such handler",
}

// silent are types of which nothing is missed.
var silent = []string{"TessenConfig", "Tessen", "LicenseFile", "EntityState"}

type key struct{ kind, namespace, name string }

type made struct{ kind, namespace, name string }

// importer has what was read and made so far.
type importer struct {
	rules   model.Rules
	now     time.Time
	objects []object
	by      map[key]*object
	made    map[made]*model.Resource
	order   []made
	names   map[made]string                   // Sensu's names by ours
	props   map[string]map[string]placeholder // properties that commands read, by namespace
	notes   []Note
	beside  bool // some of made are there already

	providers  map[string]provider // of secrets
	hookAssets map[made][]string   // runtime_assets of hooks, for the checks that name these
	hookNamed  map[made]bool       // by a check
}

func (im *importer) note(o *object, lost bool, format string, args ...any) {
	im.notes = append(im.notes, Note{o.where(), o.title(), fmt.Sprintf(format, args...), lost})
}

// lost says what of an object was not carried.
func (im *importer) lost(o *object, format string, args ...any) { im.note(o, true, format, args...) }

// said says how it was carried.
func (im *importer) said(o *object, format string, args ...any) { im.note(o, false, format, args...) }

// add keeps a resource. One of that name that is there stays.
func (im *importer) add(namespace, name string, spec model.Spec) *model.Resource {
	r := &model.Resource{APIVersion: model.APIVersion, Kind: spec.Kind(), Metadata: model.Metadata{Name: name, Namespace: namespace}, Spec: spec}
	m := made{r.Kind, namespace, name}
	if was := im.made[m]; was != nil {
		return was
	}
	im.made[m] = r
	im.order = append(im.order, m)
	return r
}

// declare is add for what an object says, with its labels and annotations.
func (im *importer) declare(o *object, spec model.Spec) *model.Resource {
	r := im.add(im.ns(o), im.called(o, spec.Kind(), o.namespace, o.name), spec)
	if r.Spec != spec {
		im.lost(o, "there is another %s of the name %s already", r.Kind, r.Metadata.Name)
		return r
	}
	if r.Metadata.Name != o.name {
		r.Metadata.DisplayName = o.name
	}
	r.Metadata.Labels, r.Metadata.Annotations = im.plain(o, "labels"), im.plain(o, "annotations")
	return r
}

// plain are labels without those that Sensu's tools write for themselves.
func (im *importer) plain(o *object, name string) map[string]string {
	out := map[string]string{}
	for k, v := range o.meta.labels(name) {
		switch {
		case strings.HasPrefix(k, "sensu.io/"):
		case len(v) > maxLabel && name == "labels":
			im.lost(o, "label %s is longer than %d characters", k, maxLabel)
		default:
			out[k] = v
		}
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

const maxLabel = 1024

func (im *importer) namespace(o *object) {
	if name := cmp.Or(o.spec.text("name"), o.name); name != "default" {
		o.name, o.namespace = name, ""
		im.declare(o, &model.NamespaceSpec{})
	}
}

// unknown says of every object of a type that nothing was made of why.
func (im *importer) unknown() {
	for i := range im.objects {
		o := &im.objects[i]
		if o.takenBy() || slices.Contains(silent, o.kind) {
			continue
		}
		why, ok := others[o.kind]
		if !ok {
			why = "this type is not known"
		}
		im.lost(o, "%s", why)
	}
}

func (o *object) takenBy() bool {
	for _, kind := range order {
		if kind.name == o.kind {
			return true
		}
	}
	return false
}

// leftovers reports every field that says something and that nobody took.
func (im *importer) leftovers() {
	for i := range im.objects {
		o := &im.objects[i]
		if !o.takenBy() {
			continue
		}
		for _, text := range append(o.spec.left(), o.meta.left()...) {
			im.lost(o, "not carried: %s", text)
		}
	}
}

// result puts what was made into the order in which resources build on each other, without
// what the rules refuse.
func (im *importer) result() *Result {
	out := &Result{Read: len(im.objects)}
	for _, kind := range model.Kinds() {
		for _, m := range im.order {
			if m.kind != kind.Name {
				continue
			}
			r := im.made[m]
			if err := im.rules.Check(r).Err(); err != nil {
				im.notes = append(im.notes, Note{Where: "-", What: r.Kind + " " + strings.TrimPrefix(m.namespace+"/"+m.name, "/"), Text: "left out, for Muster refuses it: " + strings.Join(strings.Fields(err.Error()), " "), Lost: true})
				continue
			}
			out.Resources = append(out.Resources, r)
		}
	}
	out.Notes = im.notes
	slices.SortStableFunc(out.Notes, func(a, b Note) int { return compareWhere(a.Where, b.Where) })
	return out
}

// compareWhere orders places by file, then line.
func compareWhere(a, b string) int {
	fileA, lineA := splitWhere(a)
	fileB, lineB := splitWhere(b)
	return cmp.Or(cmp.Compare(fileA, fileB), cmp.Compare(lineA, lineB))
}

func splitWhere(where string) (file string, line int) {
	i := strings.LastIndexByte(where, ':')
	if i < 0 {
		return "\xff" + where, 0 // what has no place comes last
	}
	_, _ = fmt.Sscanf(where[i+1:], "%d", &line)
	return where[:i], line
}
