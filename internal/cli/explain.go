package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/kind"
)

func (a *app) explainCmd() *cobra.Command {
	var output *format
	c := &cobra.Command{
		Use:               "explain [KIND[.FIELD]]",
		Short:             "Which kinds there are, and which fields they have",
		Long:              "Lists the kinds of resources, or the fields of one with what each means. Needs no server.",
		Example:           "  muster explain check\n  muster explain check.alert",
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: a.completeDeclared,
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return a.explainKinds(*output)
			}
			word, path, _ := strings.Cut(args[0], ".")
			k, err := a.kindOf(word)
			if err != nil {
				return err
			}
			e, err := a.Kinds.Explain(k.Name, path)
			if err != nil {
				return err
			}
			if output.machine() {
				return a.printValue(*output, e)
			}
			return a.explain(e)
		},
	}
	output = formatFlag(c)
	return c
}

func (a *app) explainKinds(f format) error {
	if f.machine() {
		all := make([]v1.Kind, 0, len(a.Kinds.Kinds()))
		for _, k := range a.Kinds.Kinds() {
			e, err := a.Kinds.Explain(k.Name, "")
			if err != nil {
				return err
			}
			all = append(all, v1.Kind{Kind: k.Name, Plural: k.Plural, Short: k.Short, Namespaced: k.Namespaced, Doc: e.Text})
		}
		return a.printValue(f, all)
	}
	t := newTable("KIND", "PLURAL", "SHORT", "NAMESPACED")
	for _, k := range a.Kinds.Kinds() {
		t.add(k.Name, k.Plural, dash(k.Short), fmt.Sprint(k.Namespaced))
	}
	return t.write(a.Env)
}

// explain prints what the thing is and what each field within it is.
func (a *app) explain(e *kind.Explanation) error {
	fmt.Fprintf(a.Stdout, "%s: %s\n%s\n", a.paint(bold, e.Path), e.Type, e.Text)
	if len(e.Fields) > 0 {
		fmt.Fprintln(a.Stdout, "\nFields (* required):")
		a.explainFields(e, "  ")
	}
	if e.Example != "" {
		fmt.Fprintf(a.Stdout, "\nExample:\n%s\n", indent(strings.TrimRight(e.Example, "\n")))
	}
	return nil
}

func (a *app) explainFields(e *kind.Explanation, indent string) {
	for i := range e.Fields {
		f := &e.Fields[i]
		name := f.Path[strings.LastIndexByte(f.Path, '.')+1:]
		if f.Must {
			name += " *"
		}
		fmt.Fprintf(a.Stdout, "%s%s (%s)\n%s    %s\n", indent, a.paint(bold, name), f.Type, indent, f.Text)
		a.explainFields(f, indent+"    ")
	}
}
