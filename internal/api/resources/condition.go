package resources

import (
	"context"
	"encoding/json"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"

	"github.com/muster-fleet/muster/internal/api/list"
	"github.com/muster-fleet/muster/internal/kind"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/where"
)

// overResources is the language of conditions over what was declared: metadata and spec as they
// are shown. Durations are texts there, 60s is 1m: duration(spec.interval) > duration("60s").
var overResources = where.Language{
	Of: "resource", MaxCost: 1_000_000, Alone: true,
	Reads:   "metadata and spec, as muster get -o yaml shows them",
	Example: `spec.interval == "10s" && metadata.labels.team == "web"`,
	Options: func() []cel.EnvOption {
		fields := cel.MapType(cel.StringType, cel.DynType)
		return []cel.EnvOption{cel.Variable("metadata", fields), cel.Variable("spec", fields)}
	},
}

// picks is a condition over resources of a kind: of nodes over what the server knows of them, of
// all others over what was declared, as the caller may see it: by a condition over what is hidden, it
// would be found out word by word. A field that is not there is no match; has(spec.ttl) asks.
// The func is of one request, and not safe for concurrent use.
func (s *request) picks(ctx context.Context, k kind.Kind, expr string) (func(*model.Resource) bool, error) {
	if k.Name == "Node" {
		c, err := where.Compile(expr)
		if err != nil {
			return nil, err
		}
		match := list.NodeMatcher(s.View, c)
		return func(r *model.Resource) bool { return r.Status != nil && match(model.NodeID(r.Status.ID)) }, nil
	}
	c, err := overResources.Compile(expr)
	if err != nil {
		return nil, err
	}
	return func(r *model.Resource) bool {
		text, err := json.Marshal(s.Redacted(ctx, r))
		if err != nil {
			return false
		}
		var shown struct {
			Metadata map[string]any `json:"metadata"`
			Spec     map[string]any `json:"spec"`
		}
		if json.Unmarshal(text, &shown) != nil {
			return false
		}
		out, _, err := c.Program.Eval(map[string]any{"metadata": shown.Metadata, "spec": shown.Spec})
		return err == nil && out == types.True
	}, nil
}
