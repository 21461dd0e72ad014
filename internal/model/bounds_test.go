package model

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
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
	check := func(change func(*CheckSpec)) Spec {
		s := &CheckSpec{Command: &Command{Shell: "true"}, Interval: Duration(time.Minute)}
		change(s)
		return s
	}
	for field, spec := range map[string]Spec{
		"spec.env":            check(func(s *CheckSpec) { s.Env = many }),
		"spec.env.A":          check(func(s *CheckSpec) { s.Env = map[string]string{"A": strings.Repeat("x", maxVariable+1)} }),
		"spec.command":        check(func(s *CheckSpec) { s.Command = &Command{Argv: names[:maxEntries+1]} }),
		"spec.alert.handlers": check(func(s *CheckSpec) { s.Alert = &Alert{Handlers: names[:maxEntries+1]} }),
		"spec.handlers":       &NamespaceSpec{Handlers: names[:maxEntries+1]},
		"spec.cron":           check(func(s *CheckSpec) { s.Interval, s.Cron = 0, "* * * * "+strings.Repeat("1,", 300)+"1" }),
		"spec.probe.args":     check(func(s *CheckSpec) { s.Command, s.Probe = nil, &Probe{Name: "x", Args: many} }),
		"spec.properties":     &NodeSpec{Properties: values},
		"spec.properties.p":   &GroupSpec{Properties: map[string]json.RawMessage{"p": make([]byte, maxPropertyValue+1)}},
		"spec.value":          &PropertySpec{Property: "p", Value: make([]byte, maxPropertyValue+1)},
		"spec.property":       &PropertySpec{Property: strings.Repeat("p", 300), Value: json.RawMessage("1")},
	} {
		r := &Resource{APIVersion: APIVersion, Kind: spec.Kind(), Metadata: Metadata{Name: "x", Namespace: "default"}, Spec: spec}
		if k, _ := KindOf(r.Kind); !k.Namespaced {
			r.Metadata.Namespace = ""
		}
		flaws := Rules{}.Check(r)
		if len(flaws) == 0 || flaws[0].Field != field {
			t.Errorf("%s: %v", field, flaws.Err())
		}
	}
	// A list as long as a body can carry is looked at once, not once for each name.
	began := time.Now()
	r := &Resource{APIVersion: APIVersion, Kind: "Group", Metadata: Metadata{Name: "x", Namespace: "default"}, Spec: &GroupSpec{Nodes: append(names, "n0")}}
	if flaws := (Rules{}).Check(r); len(flaws) != 1 {
		t.Errorf("%d flaws", len(flaws))
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("took %s", took)
	}
}

// Handlers and groups are named in one's own namespace or in the shared one.
func TestHandlersOfOtherTeamsCannotBeNamed(t *testing.T) {
	for name, ok := range map[string]bool{"pager": true, "shared/pager": true, "web/pager": true, "db/pager": false, "a/b/c": false, "/pager": false} {
		for _, r := range []*Resource{
			{Kind: "Namespace", Metadata: Metadata{Name: "web"}, Spec: &NamespaceSpec{Handlers: []string{name}}},
			{Kind: "Check", Metadata: Metadata{Name: "x", Namespace: "web"}, Spec: &CheckSpec{
				Command: &Command{Shell: "true"}, Interval: Duration(time.Minute), Alert: &Alert{Handlers: []string{name}},
			}},
		} {
			if err := Validate(r); (err == nil) != ok {
				t.Errorf("%s names %q: %v", r.Kind, name, err)
			}
		}
	}
}
