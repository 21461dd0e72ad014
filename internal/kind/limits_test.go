package kind

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/model"
)

// What would not fit an agent's assignment, or would take for ever to look at, is said
// with the field that is too much.
func TestBoundsOfAResource(t *testing.T) {
	many := map[string]string{}
	values := map[string]json.RawMessage{}
	names := make([]string, 200_000)
	for i := range names {
		names[i] = fmt.Sprint("n", i)
	}
	for i := range maxEntries + 1 {
		many[names[i]], values[names[i]] = "x", json.RawMessage("1")
	}
	check := func(change func(*model.CheckSpec)) model.Spec {
		s := &model.CheckSpec{Command: &model.Command{Shell: "true"}, Interval: model.Duration(time.Minute)}
		change(s)
		return s
	}
	for field, spec := range map[string]model.Spec{
		"spec.env":            check(func(s *model.CheckSpec) { s.Env = many }),
		"spec.env.A":          check(func(s *model.CheckSpec) { s.Env = map[string]string{"A": strings.Repeat("x", maxVariable+1)} }),
		"spec.command":        check(func(s *model.CheckSpec) { s.Command = &model.Command{Argv: names[:maxEntries+1]} }),
		"spec.alert.handlers": check(func(s *model.CheckSpec) { s.Alert = &model.Alert{Handlers: names[:maxEntries+1]} }),
		"spec.handlers":       &model.NamespaceSpec{Handlers: names[:maxEntries+1]},
		"spec.cron":           check(func(s *model.CheckSpec) { s.Interval, s.Cron = 0, "* * * * "+strings.Repeat("1,", 300)+"1" }),
		"spec.probe.args":     check(func(s *model.CheckSpec) { s.Command, s.Probe = nil, &model.Probe{Name: "x", Args: many} }),
		"spec.properties":     &model.NodeSpec{Properties: values},
		"spec.properties.p":   &model.GroupSpec{Properties: map[string]json.RawMessage{"p": make([]byte, maxPropertyValue+1)}},
		"spec.value":          &model.PropertySpec{Property: "p", Value: make([]byte, maxPropertyValue+1)},
		"spec.property":       &model.PropertySpec{Property: strings.Repeat("p", 300), Value: json.RawMessage("1")},
	} {
		r := &model.Resource{APIVersion: model.APIVersion, Kind: spec.Kind(), Metadata: model.Metadata{Name: "x", Namespace: "default"}, Spec: spec}
		if k, _ := All().Of(r.Kind); !k.Namespaced {
			r.Metadata.Namespace = ""
		}
		flaws := All().Check(r)
		if len(flaws) == 0 || flaws[0].Field != field {
			t.Errorf("%s: %v", field, flaws.Err())
		}
	}
	// A list as long as a body can carry is looked at once, not once for each name.
	began := time.Now()
	r := &model.Resource{APIVersion: model.APIVersion, Kind: "Group", Metadata: model.Metadata{Name: "x", Namespace: "default"}, Spec: &model.GroupSpec{Nodes: append(names, "n0")}}
	if flaws := All().Check(r); len(flaws) != 1 {
		t.Errorf("%d flaws", len(flaws))
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("took %s", took)
	}
}

// Handlers and groups are named in one's own namespace or in the shared one.
func TestHandlersOfOtherTeamsCannotBeNamed(t *testing.T) {
	for name, ok := range map[string]bool{"pager": true, "shared/pager": true, "web/pager": true, "db/pager": false, "a/b/c": false, "/pager": false} {
		for _, r := range []*model.Resource{
			{Kind: "Namespace", Metadata: model.Metadata{Name: "web"}, Spec: &model.NamespaceSpec{Handlers: []string{name}}},
			{Kind: "Check", Metadata: model.Metadata{Name: "x", Namespace: "web"}, Spec: &model.CheckSpec{
				Command: &model.Command{Shell: "true"}, Interval: model.Duration(time.Minute), Alert: &model.Alert{Handlers: []string{name}},
			}},
		} {
			if err := All().Validate(r); (err == nil) != ok {
				t.Errorf("%s names %q: %v", r.Kind, name, err)
			}
		}
	}
}
