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

// overResources is the language of conditions over declared resources: metadata and spec as they
// are shown. Durations are texts, and 60s is 1m: duration(spec.interval) > duration("60s").
var overResources = where.Language{
	Of: "resource", MaxCost: 1_000_000, Alone: true,
	Reads:   "metadata and spec, as muster get -o yaml shows them",
	Example: `spec.interval == "10s" && metadata.labels.team == "web"`,
	Options: func() []cel.EnvOption {
		fields := cel.MapType(cel.StringType, cel.DynType)
		return []cel.EnvOption{cel.Variable("metadata", fields), cel.Variable("spec", fields)}
	},
}

// matcher compiles a condition over resources of a kind. A condition over nodes reads labels, facts
// and groups. Any other reads the resource as the caller may see it, or it would reveal hidden
// secrets bit by bit. A missing field makes it false; has(spec.ttl) asks for one. The function
// serves one request and is not safe for concurrent use.
func (s *request) matcher(ctx context.Context, k kind.Kind, expr string) (func(*model.Resource) bool, error) {
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
