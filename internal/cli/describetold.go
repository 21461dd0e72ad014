package cli

import (
	"context"
	"strings"

	"github.com/muster-fleet/muster/internal/client"
	"github.com/muster-fleet/muster/internal/kind"
	"github.com/muster-fleet/muster/internal/model"
)

// told says which handlers hear that a node was forgotten, and of each that cannot, why: an agent
// of Sensu names one that may not be there.
func (a *app) told(ctx context.Context, c *client.Client, namespace string, refs []string) (string, error) {
	if len(refs) == 0 {
		return "", nil
	}
	kind := kind.Handler().KindInfo
	list := make([]string, 0, len(refs))
	for _, ref := range refs {
		ns, name := model.SplitRef(namespace, ref)
		data, _, err := c.Resources.Get(ctx, kind, ns, name)
		switch class := model.ClassOf(err); {
		case class == model.NotFound:
			ref += " (which does not exist: the message waits until it is applied)"
		case class == model.Forbidden: // a handler of a namespace that the reader may not see
		case err != nil:
			return "", err
		default:
			r, err := a.Kinds.DecodeResource(data)
			if err != nil {
				return "", err
			}
			if service := r.Spec.(*model.HandlerSpec).ProblemService(); service != "" {
				ref += " (which is " + service + " and takes problems only: the message is given up)"
			}
		}
		list = append(list, ref)
	}
	return ", and " + strings.Join(list, ", ") + " is told", nil
}
