package intent

import (
	"context"
	"slices"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pki"
)

// claimDeclared makes a machine the declared node of the wanted name that waits for one: the row gets its ids and the
// token's grants. It judges the row again where somebody changed it meanwhile, at most five times.
func (s *Enrolment) claimDeclared(ctx context.Context, by Actor, at Key, key string, token pki.JoinToken, request pki.EnrolRequest, confirmed bool) (member pki.Member, ok bool, err error) {
	for range 5 {
		member, ok, err = s.claimDeclaredOnce(ctx, by, at, key, token, request, confirmed)
		if model.ClassOf(err) != model.Conflict {
			break
		}
	}
	return member, ok, err
}

// claimDeclaredOnce reads, judges and writes the row. A node in a trusted group waits until a person confirms the
// name: else a machine would be trusted for the name that it chose.
func (s *Enrolment) claimDeclaredOnce(ctx context.Context, by Actor, at Key, key string, token pki.JoinToken, request pki.EnrolRequest, confirmed bool) (pki.Member, bool, error) {
	if s.nodes.hasMachine([]string{at.Namespace}, at.Name) {
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
	if !confirmed {
		if trusted, err := s.isTrustedNode(ctx, model.NodeID(row.ID), at.Namespace, at.Name); trusted || err != nil {
			return pki.Member{}, false, err
		}
	}
	uid := nodeUID(request)
	spec.UID, spec.Key = uid.String(), key
	spec.Facts, spec.AgentLabels, spec.AgentGroups, spec.AgentReceivers = request.Facts, request.Labels, sortedGroups(request.Groups), nil
	if g := newJoinGrant(token); g != nil {
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
	writes := slices.Concat([]Write{{Key: at, Body: body, Expect: row.Revision}}, s.tombstones.liftWrites(keyTombstone+key), used)
	_, err = s.commit(ctx, by, writes)
	return pki.Member{UID: uid, Name: at.Name, Namespace: at.Namespace}, err == nil, err
}
