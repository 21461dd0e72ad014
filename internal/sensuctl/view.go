package sensuctl

import (
	"cmp"
	"context"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/model"
)

// view writes resources in Sensu's forms. It reads each other resource that a form needs once per request.
type view struct {
	ctx       context.Context
	r         *request
	declared  bool // entities have declared labels and subscriptions only
	resources map[resourceKey]*model.Resource
	states    map[resourceKey]*v1.NodeState // nil: not read yet
}

type resourceKey struct{ kind, namespace, name string }

func newView(ctx context.Context, r *request) *view {
	return &view{ctx: ctx, r: r, resources: map[resourceKey]*model.Resource{}}
}

// find returns a resource; nil: it does not exist.
func (v *view) find(kind, namespace, name string) (*model.Resource, error) {
	k := resourceKey{kind, namespace, name}
	m, ok := v.resources[k]
	if ok {
		return m, nil
	}
	m, err := v.r.find(v.ctx, kind, namespace, name)
	if err == nil {
		v.resources[k] = m
	}
	return m, err
}

// maxStates bounds the nodes of a list whose last contact and effective groups are read; the others have declared
// values only.
const maxStates = 1000

// state returns the server's state of a node; nil: unknown, or only declared values are wanted.
func (v *view) state(namespace, name string) (*v1.NodeState, error) {
	if v.declared {
		return nil, nil
	}
	if v.states == nil {
		filter := v1.NodeFilter{Namespace: v.r.namespace, Limit: maxStates}
		if v.r.kind == "events" || len(v.r.names) > 0 {
			filter.Name = v.r.name(0)
		}
		list, err := v.r.muster.Nodes.States(v.ctx, filter)
		if err != nil && model.ClassOf(err) != model.NotFound {
			return nil, err
		}
		v.states = map[resourceKey]*v1.NodeState{}
		for i := range list.Items {
			n := &list.Items[i]
			v.states[resourceKey{"Node", n.Namespace, n.Name}] = n
		}
	}
	return v.states[resourceKey{"Node", namespace, name}], nil
}

// metadata returns the metadata of a resource in Sensu's form. name is Sensu's, where it differs.
func metadata(m *model.Resource, name string) object {
	out := object{"name": name, "namespace": m.Metadata.Namespace}
	if len(m.Metadata.Labels) > 0 {
		out["labels"] = m.Metadata.Labels
	}
	if len(m.Metadata.Annotations) > 0 {
		out["annotations"] = m.Metadata.Annotations
	}
	return out
}

// sensuName returns the name that Sensu had for a resource: its display name, where the import derived the name from it.
func sensuName(m *model.Resource) string {
	return originalName(m.Metadata.Name, m.Metadata.DisplayName)
}

func originalName(name, original string) string {
	if model.CleanName(original) == name {
		return original
	}
	return name
}

// pageSize is the largest number of items in one answer; sensuctl asks for the next page by itself.
const pageSize = 1000

// readPage returns the limit and the page token of a request.
func readPage(r *request) (limit int, after string) {
	limit, _ = strconv.Atoi(r.URL.Query().Get("limit"))
	if limit <= 0 || limit > pageSize {
		limit = pageSize
	}
	return limit, r.URL.Query().Get("continue")
}

// get reads one resource.
func (r *request) get(ctx context.Context, kind, namespace, name string) (*model.Resource, error) {
	k, _ := r.kinds.Of(kind)
	if name == "" || k.Namespaced && namespace == "" {
		return nil, model.Errorf(model.NotFound, "the path has no valid name of a %s", kind)
	}
	if !k.Namespaced {
		namespace = ""
	}
	data, _, err := r.muster.Resources.Get(ctx, k.KindInfo, namespace, name)
	if err != nil {
		return nil, err
	}
	return r.kinds.DecodeResource(data)
}

// find is get with nil for a resource that does not exist.
func (r *request) find(ctx context.Context, kind, namespace, name string) (*model.Resource, error) {
	m, err := r.get(ctx, kind, namespace, name)
	if err != nil && model.ClassOf(err) == model.NotFound {
		return nil, nil
	}
	return m, err
}

// page reads one page of the resources of a kind.
func (r *request) page(ctx context.Context, kind string, limit int, after string) (list []*model.Resource, next string, err error) {
	k, _ := r.kinds.Of(kind)
	namespace := r.namespace
	if !k.Namespaced {
		namespace = ""
	}
	got, err := r.muster.Resources.List(ctx, k.KindInfo, namespace, v1.ResourceFilter{}, false, limit, after)
	if err != nil {
		return nil, "", err
	}
	for _, item := range got.Items {
		m, err := r.kinds.DecodeResource(item)
		if err != nil {
			return nil, "", err
		}
		list = append(list, m)
	}
	return list, got.Next, nil
}

// all reads all resources of a kind.
func (r *request) all(ctx context.Context, kind string) (list []*model.Resource, err error) {
	for after := ""; ; {
		page, next, err := r.page(ctx, kind, pageSize, after)
		if list = append(list, page...); err != nil || next == "" {
			return list, err
		}
		after = next
	}
}

// list answers with a page of the resources of a type that have a form in Sensu and match the selectors.
func (s *Server) list(ctx context.Context, r *request) (answer, error) {
	limit, after := readPage(r)
	items, next, err := r.page(ctx, types[r.kind].kind, limit, after)
	if err != nil {
		return answer{}, err
	}
	v := newView(ctx, r)
	forms := make([]object, 0, len(items))
	for _, m := range items {
		o, err := types[r.kind].form(v, m)
		if err != nil {
			return answer{}, err
		}
		forms = append(forms, o)
	}
	return selectForms(ctx, r, forms, next)
}

// selectForms answers with those objects that match the selectors of a request; nil objects have no form in Sensu. An
// empty list is an error if the namespace does not exist.
func selectForms(ctx context.Context, r *request, forms []object, next string) (answer, error) {
	chosen, err := parseSelectors(r.URL.Query(), r.kind)
	if err != nil {
		return answer{}, err
	}
	out := []object{}
	for _, o := range forms {
		if o != nil && chosen.match(r.kind, o) {
			out = append(out, o)
		}
	}
	if len(forms) == 0 && r.namespace != "" {
		_, err = r.get(ctx, "Namespace", "", r.namespace)
	}
	return answer{http.StatusOK, out, next}, err
}

// one answers with one resource.
func (s *Server) one(ctx context.Context, r *request) (answer, error) {
	m, err := r.get(ctx, types[r.kind].kind, r.namespace, r.name(0))
	if err != nil {
		return answer{}, err
	}
	o, err := types[r.kind].form(newView(ctx, r), m)
	if err == nil && o == nil {
		err = noOperation(r)
	}
	return answer{http.StatusOK, o, ""}, err
}

// object is a JSON object in Sensu's form.
type object = map[string]any

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// seconds rounds a duration up.
func seconds(d model.Duration) int64 {
	return int64((max(time.Duration(d), 0) + time.Second - 1) / time.Second)
}

// unixTime returns seconds since 1970; 0: no time.
func unixTime(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.Unix()
}

// subscriptions returns groups by their names and nodes by their entity subscriptions.
func subscriptions(t *model.Targets) []string {
	out := []string{}
	if t == nil {
		return out
	}
	out = append(out, t.Groups...)
	for _, node := range t.Nodes {
		out = append(out, "entity:"+node)
	}
	return out
}

// shellCommand returns a command as one line for a shell, with Sensu's tokens.
func shellCommand(c *model.Command) string {
	if c == nil {
		return ""
	}
	if c.Argv == nil {
		return sensuTokens(c.Shell)
	}
	words := make([]string, len(c.Argv))
	for i, w := range c.Argv {
		words[i] = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
	}
	return sensuTokens(strings.Join(words, " "))
}

// sensuTokens writes properties as Sensu's tokens, which an import turns into the same properties.
func sensuTokens(text string) string {
	return strings.NewReplacer("{{ .props.entity_name", "{{ .name", "{{ .props.", "{{ .labels.").Replace(text)
}

func envVars(env map[string]string) []string {
	out := []string{}
	for _, name := range sortedKeys(env) {
		out = append(out, name+"="+sensuTokens(env[name]))
	}
	return out
}

func secrets(list []model.CommandSecret) []object {
	out := []object{}
	for _, s := range list {
		out = append(out, object{"name": s.Env, "secret": s.Secret})
	}
	return out
}

// list returns an empty list for nil, which Sensu's JSON does not have.
func nonNil(list []string) []string {
	if list == nil {
		return []string{}
	}
	return list
}

func references(kind string, names []string) []object {
	out := []object{}
	for _, name := range names {
		out = append(out, object{"name": name, "type": kind, "api_version": "core/v2"})
	}
	return out
}

func cronOf(c *model.CheckSpec) string {
	if c.Cron == "" {
		return ""
	}
	return "CRON_TZ=" + cmp.Or(c.TimeZone, "UTC") + " " + c.Cron
}

func bound(n *float64) string {
	if n == nil {
		return ""
	}
	return strconv.FormatFloat(*n, 'g', -1, 64)
}

func metricTags(tags map[string]string) []object {
	out := []object{}
	for _, name := range sortedKeys(tags) {
		out = append(out, object{"name": name, "value": sensuTokens(tags[name])})
	}
	return out
}

var weekdays = map[string]string{
	"mon": "monday", "tue": "tuesday", "wed": "wednesday", "thu": "thursday", "fri": "friday", "sat": "saturday", "sun": "sunday",
}

// weekdayTimes returns spans of time in UTC by day of the week. not ok: a span has another form.
func weekdayTimes(spans []string) (out object, ok bool) {
	byDay := object{}
	for _, during := range spans {
		day, times, found := strings.Cut(during, " ")
		if !found {
			day, times = "all", during
		} else if day = weekdays[day]; day == "" {
			return nil, false
		}
		from, to, _ := strings.Cut(times, "-")
		begin, err1 := time.Parse("15:04", from)
		end, err2 := time.Parse("15:04", strings.Replace(to, "24:00", "00:00", 1))
		if err1 != nil || err2 != nil {
			return nil, false
		}
		list, _ := byDay[day].([]object)
		byDay[day] = append(list, object{"begin": begin.Format("3:04PM"), "end": end.Format("3:04PM")})
	}
	return object{"days": byDay}, true
}
