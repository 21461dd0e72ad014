package kind

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/testenv"
)

//go:generate go test . -run TestReferencePageIsUpToDate -update

// TestReferencePageIsUpToDate compares the page docs/reference/resources.md with the page generated from the kinds
func TestReferencePageIsUpToDate(t *testing.T) {
	testenv.Golden(t, "../../docs/reference/resources.md", makeReferencePage(All()))
}

// makeReferencePage returns the page docs/reference/resources.md, with each kind's fields and example.
func makeReferencePage(r *Registry) string {
	var b strings.Builder
	comments := r.parseSpecComments()
	b.WriteString(`# Resources

` + "`make docs`" + ` writes this page from the code; ` + "`muster explain KIND`" + ` prints the same text.

Every resource has the same envelope: ` + "`apiVersion: " + model.APIVersion + "`, `kind`, `metadata`, `spec`" + `. Durations
carry a unit. Unknown fields are errors. Fields marked * are required.

`)
	b.WriteString("[Metadata](#metadata)")
	for i := range r.kinds {
		fmt.Fprintf(&b, " · [%s](#%s)", r.kinds[i].Name, strings.ToLower(r.kinds[i].Name))
	}
	b.WriteString("\n\n## Metadata\n\n")
	writeFieldTable(&b, comments.explainFieldType(reflect.TypeFor[model.Metadata](), "metadata", nil))
	for i := range r.kinds {
		k := &r.kinds[i]
		e := comments.explainKind(k)
		fmt.Fprintf(&b, "## %s\n\n%s\n\nOn the command line: `%s`, `%s`, `%s`.\n\n```yaml\n%s```\n\n",
			k.Name, e.Text, strings.ToLower(k.Name), k.Plural, k.Short, k.Example)
		writeFieldTable(&b, e.Fields[1])
	}
	return b.String()
}

// writeFieldTable writes a Markdown table of the fields inside one field. The paths are relative to that field.
func writeFieldTable(b *strings.Builder, e Explanation) {
	b.WriteString("| field | type | |\n|---|---|---|\n")
	writeFieldRows(b, e, e.Path+".")
	b.WriteByte('\n')
}

// writeFieldRows writes the rows of a Markdown table about fields. Nested fields follow their parent.
func writeFieldRows(b *strings.Builder, e Explanation, cut string) {
	escape := strings.NewReplacer("|", `\|`, "{{", "`{{", "}}", "}}`")
	for _, f := range e.Fields {
		must := ""
		if f.Must {
			must = " *"
		}
		fmt.Fprintf(b, "| `%s`%s | %s | %s |\n", strings.TrimPrefix(f.Path, cut), must, f.Type, escape.Replace(f.Text))
		writeFieldRows(b, f, cut)
	}
}

// TestEveryFieldIsExplained requires a Go comment for each field of each kind. The command explain shows the comments.
func TestEveryFieldIsExplained(t *testing.T) {
	var walk func(e Explanation)
	walk = func(e Explanation) {
		if e.Text == "" {
			t.Errorf("%s has no comment in resource.go", e.Path)
		}
		for _, f := range e.Fields {
			walk(f)
		}
	}
	for _, k := range All().Kinds() {
		e, err := All().Explain(k.Name, "")
		testenv.NoError(t, err)
		walk(*e)
	}
}

// TestExplainFindsKindsAndFields explains kinds by all their names and fields by path, and expects suggestions for
// misspelt words
func TestExplainFindsKindsAndFields(t *testing.T) {
	for _, c := range []struct{ kind, path, want string }{
		{"check", "", "check: A Check is "},
		{"checks", "alert.failAfter", "check.spec.alert.failAfter: "},
		{"ch", "spec.alert", "check.spec.alert: "},
		{"Node", "metadata.name", "node.metadata.name: "},
		{"check", "alert.failafer", "check.spec.alert has no field \"failafer\"\n  did you mean failAfter?"},
		{"chek", "", "unknown kind \"chek\"\n  did you mean Check?"},
	} {
		e, err := All().Explain(c.kind, c.path)
		got := fmt.Sprint(err)
		if err == nil {
			got = e.Path + ": " + e.Text
		}
		if !strings.HasPrefix(got, c.want) {
			t.Errorf("%s %s: %q, want %q", c.kind, c.path, got, c.want)
		}
	}
}

// TestExplanationsNameTheLimits expects the comments of fields to state the limits and defaults that the code has
func TestExplanationsNameTheLimits(t *testing.T) {
	seconds := func(d time.Duration) string { return strconv.Itoa(int(d/time.Second)) + "s" }
	for _, c := range []struct{ kind, path, want string }{
		{"node", "metadata.name", "at most " + strconv.Itoa(model.MaxName)},
		{"namespace", "spec.limits.statesPerNode", "default " + strconv.Itoa(model.DefaultStatesPerNode)},
		{"node", "spec.keepalive.interval", "default " + seconds(model.DefaultKeepalive)},
		{"node", "spec.keepalive.timeout", "default " + seconds(model.DefaultKeepaliveTimeout)},
		{"check", "spec.timeout", "at most " + seconds(model.DefaultTimeout)},
		{"check", "spec.maxOutput", "Default " + model.Size(model.DefaultOutputBytes).String() + ", at most " + model.Size(model.MaxOutputBytes).String()},
	} {
		e, err := All().Explain(c.kind, c.path)
		testenv.NoError(t, err)
		if !strings.Contains(e.Text, c.want) {
			t.Errorf("%s %s: %q does not contain %q", c.kind, c.path, e.Text, c.want)
		}
	}
}

// TestSizesAreBounded validates lists, mappings and texts above the size limits, and expects an error for each field
func TestSizesAreBounded(t *testing.T) {
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
		if k, _ := All().Lookup(r.Kind); !k.Namespaced {
			r.Metadata.Namespace = ""
		}
		flaws := All().Check(r)
		if len(flaws) == 0 || flaws[0].Field != field {
			t.Errorf("%s: %v", field, flaws.Err())
		}
	}
	// Validation of a list takes linear time: it must not compare each name with each other.
	began := time.Now()
	r := &model.Resource{APIVersion: model.APIVersion, Kind: "Group", Metadata: model.Metadata{Name: "x", Namespace: "default"}, Spec: &model.GroupSpec{Nodes: append(names, "n0")}}
	if flaws := All().Check(r); len(flaws) != 1 {
		t.Errorf("%d flaws", len(flaws))
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("took %s", took)
	}
}

// TestReferenceToAnotherNamespaceIsRefused expects an error if a resource refers to a resource of another namespace.
// Allowed are the resource's own namespace and the namespace shared.
func TestReferenceToAnotherNamespaceIsRefused(t *testing.T) {
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

// TestExamplesAreValid expects each kind's example to contain exactly one valid resource
func TestExamplesAreValid(t *testing.T) {
	for _, k := range All().Kinds() {
		list, err := All().Read(k.Name, []byte(k.Example))
		if err != nil || len(list) != 1 || list[0].Kind != k.Name {
			t.Errorf("%s: %d resources, %v", k.Name, len(list), err)
		}
	}
}
