package kind

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/muster-fleet/muster/internal/model"
)

//go:generate go test . -run TestReferencePageIsUpToDate -update

// ReferencePage returns docs/reference/resources.md.
func (r *Registry) ReferencePage() string {
	var b strings.Builder
	comments := r.comments()
	b.WriteString(`# Resources

` + "`make docs`" + ` writes this page from the code; ` + "`muster explain KIND`" + ` prints the same.

Every resource has the same envelope: ` + "`apiVersion: " + model.APIVersion + "`, `kind`, `metadata`, `spec`" + `. Durations
carry a unit. Unknown fields are errors. Fields marked * are required.

`)
	writeFields(&b, "Metadata", comments.explainType(reflect.TypeFor[model.Metadata](), "metadata", nil))
	for i := range r.kinds {
		k := &r.kinds[i]
		e := comments.explain(k)
		fmt.Fprintf(&b, "## %s\n\n%s\n\nOn the command line: `%s`, `%s`, `%s`.\n\n```yaml\n%s```\n\n",
			k.Name, e.Text, strings.ToLower(k.Name), k.Plural, k.Short, k.Example)
		writeTable(&b, e.Fields[1], e.Fields[1].Path+".")
	}
	return b.String()
}

func writeFields(b *strings.Builder, title string, e Explanation) {
	fmt.Fprintf(b, "## %s\n\n", title)
	writeTable(b, e, e.Path+".")
}

func writeTable(b *strings.Builder, e Explanation, cut string) {
	b.WriteString("| field | type | |\n|---|---|---|\n")
	writeRows(b, e, cut)
	b.WriteByte('\n')
}

func writeRows(b *strings.Builder, e Explanation, cut string) {
	escape := strings.NewReplacer("|", `\|`, "{{", "`{{", "}}", "}}`")
	for _, f := range e.Fields {
		must := ""
		if f.Must {
			must = " *"
		}
		fmt.Fprintf(b, "| `%s`%s | %s | %s |\n", strings.TrimPrefix(f.Path, cut), must, f.Type, escape.Replace(f.Text))
		writeRows(b, f, cut)
	}
}
