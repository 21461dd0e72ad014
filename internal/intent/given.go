package intent

import (
	"context"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pki"
)

// CheckJoinGrant says why nodes cannot get what a join token, or who lets a machine in, would
// give them: it is held to what an applied Node is held to.
func (s *Service) CheckJoinGrant(ctx context.Context, token pki.JoinToken) error {
	r := model.Resource{
		Kind: "Node", Metadata: model.Metadata{Name: "node", Namespace: token.Namespace, Labels: token.Labels},
		Spec: &model.NodeSpec{Groups: token.Groups, Lifecycle: token.Lifecycle},
	}
	if err := s.opts.Validate(&r); err != nil {
		return err
	}
	if most := s.LimitsFor(token.Namespace).Labels; most > 0 && len(token.Labels) > most {
		return model.Errorf(model.Limited, "a node would get %d labels, namespace %s allows %d", len(token.Labels), token.Namespace, most).
			WithHint("give fewer, or raise limits.labels of the namespace: muster edit namespace %s", token.Namespace)
	}
	if token.Lifecycle != nil {
		return s.notifiable(ctx, "", token.Namespace, token.Lifecycle, s.newLookup(nil, nil))
	}
	return nil
}

// given is what a token, or who accepts its machine, gives a node; nil: nothing.
func given(token pki.JoinToken) *model.JoinGrant {
	g := &model.JoinGrant{Token: token.ID, Groups: token.Groups, Labels: token.Labels, Lifecycle: token.Lifecycle}
	if g.Empty() {
		return nil
	}
	return g
}
