package route

import (
	"cel.dev/cel-go/cel"

	"github.com/muster-fleet/muster/internal/where"
)

// problemConditions is the language of a selector's `where`: a condition over a problem's source
// and its node.
var problemConditions = where.Language{
	Of: "problem", MaxCost: 100_000,
	Reads:   "source.kind, .name, .namespace, .instance; check; node.name, .namespace, .labels, .facts, .groups",
	Example: `source.kind == "check" && source.name.startsWith("disk")`,
	Options: func() []cel.EnvOption {
		return []cel.EnvOption{
			cel.Variable("source.kind", cel.StringType),
			cel.Variable("source.name", cel.StringType),
			cel.Variable("source.namespace", cel.StringType),
			cel.Variable("source.instance", cel.StringType),
			cel.Variable("check", cel.StringType),
		}
	},
}

// CheckCondition checks the `where` of a selector.
func CheckCondition(expr string) error {
	_, err := problemConditions.Compile(expr)
	return err
}
