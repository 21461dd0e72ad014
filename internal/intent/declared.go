package intent

import (
	"context"
	"slices"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pki"
)

// takeDeclared makes a machine the node that an operator has declared under the name that it
// wants, and that waits for its machine: the row gets its ids, and what the token gives
// besides what is declared. A node that a trusted group holds waits for a person who says
// the name (named): else the machine would be trusted for the name it chose.
func (s *Service) takeDeclared(ctx context.Context, by Actor, at Key, key string, token pki.JoinToken, request pki.EnrolRequest, named bool) (member pki.Member, ok bool, err error) {
	for range 5 { // it is written as it was judged: where somebody changed it meanwhile, it is judged anew
		member, ok, err = s.tryDeclared(ctx, by, at, key, token, request, named)
		if model.ClassOf(err) != model.Conflict {
			break
		}
	}
	return member, ok, err
}

func (s *Service) tryDeclared(ctx context.Context, by Actor, at Key, key string, token pki.JoinToken, request pki.EnrolRequest, named bool) (pki.Member, bool, error) {
	if s.nodes.holds([]string{at.Namespace}, at.Name) {
		return pki.Member{}, false, nil
	}
	row, err := s.opts.Store.Get(ctx, at)
	if model.ClassOf(err) == model.NotFound {
		return pki.Member{}, false, nil
	}
	if err != nil {
		return pki.Member{}, false, err
	}
	r, err := s.decode(row)
	if err != nil {
		return pki.Member{}, false, err
	}
	spec := r.Spec.(*model.NodeSpec)
	if spec.UID != "" || spec.Proxy {
		return pki.Member{}, false, nil
	}
	if !named {
		if trusted, err := s.trustedNode(ctx, model.NodeID(row.ID), at.Namespace, at.Name); trusted || err != nil {
			return pki.Member{}, false, err
		}
	}
	uid := idFor(request)
	spec.UID, spec.Key = uid.String(), key
	spec.Facts, spec.AgentLabels, spec.AgentGroups, spec.AgentReceivers = request.Facts, request.Labels, sortedGroups(request.Groups), nil
	if g := given(token); g != nil {
		spec.JoinGrant = g
	}
	body, err := encode(r)
	if err != nil {
		return pki.Member{}, false, err
	}
	used, err := JoinTokens{s.opts.Store}.use(ctx, token)
	if err != nil {
		return pki.Member{}, false, err
	}
	writes := slices.Concat([]Write{{Key: at, Body: body, Expect: row.Revision}}, s.nodes.lift(keyTomb+key), used)
	_, err = s.commit(ctx, by, writes)
	return pki.Member{UID: uid, Name: at.Name, Namespace: at.Namespace}, err == nil, err
}

// HasMachine says whether a node of the name is a machine's already, and not only declared.
func (s *Service) HasMachine(namespace, name string) bool {
	return s.nodes.holds([]string{namespace}, name)
}
