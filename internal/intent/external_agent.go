package intent

import (
	"context"

	"github.com/google/uuid"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pki"
)

// ExternalAgent is a machine with the agent of another system. It has no key; the other system's name identifies it.
type ExternalAgent struct {
	System      string // the system of its agent: sensu
	Namespace   string
	Name        string // in that system; NodeName makes it a valid name
	AgentReport AgentReport
	Lifecycle   *model.Lifecycle // of a new node; nil: permanent
}

// UID returns the uid of the machine's node, derived from system, namespace and name.
func (m *ExternalAgent) UID() uuid.UUID {
	space := uuid.MustParse("5d1c9a0e-6f3b-4c55-9a59-0d6f1c2b7e44") // ours, for ids of strangers
	return uuid.NewSHA1(space, []byte(m.System+"\x00"+m.Namespace+"\x00"+m.Name))
}

// IsExternalAgent reports whether a uid was derived by ExternalAgent.UID; uids of our agents are random.
func IsExternalAgent(uid uuid.UUID) bool { return uid.Version() == 5 }

// RegisterExternal returns the node of an external agent and creates it at its first connection: by its name, or by
// that name with a number where another machine has it. Its labels and groups bring it into nothing trusted. After
// it was forgotten it comes as a new node, since it has no identity to reset.
func (s *Enrolment) RegisterExternal(ctx context.Context, by Actor, m *ExternalAgent) (NodeInfo, error) {
	uid := m.UID()
	if info, ok := s.nodes.lookup(uid); ok {
		return info, nil
	}
	t, gone := s.tombstones.lookup(uid.String())
	if gone && t.Why != ReasonForgotten {
		return NodeInfo{}, model.Errorf(model.Forbidden, "%s", t.Sentence()).WithHint("%s", t.Hint())
	}
	if _, ok := s.namespaces.id(m.Namespace); !ok {
		return NodeInfo{}, namespaceMissing(m.Namespace)
	}
	if gone {
		if err := (&Tombstones{s.repository}).LiftTombstone(ctx, by, uid.String()); err != nil && model.ClassOf(err) != model.NotFound {
			return NodeInfo{}, err
		}
	}
	_, err := s.register(ctx, by, "", pki.JoinToken{Namespace: m.Namespace, Lifecycle: m.Lifecycle}, pki.EnrolRequest{
		Name: m.Name, Namespace: m.Namespace, Facts: m.AgentReport.Facts, Labels: m.AgentReport.Labels, Groups: m.AgentReport.Groups,
		Returns: &pki.Returning{UID: uid, Namespace: m.Namespace},
	}, false)
	info, ok := s.nodes.lookup(uid)
	if err == nil && !ok {
		err = model.Errorf(model.Unavailable, "node %s was made, and is there no more", m.Name)
	}
	if ok { // it came by two connections at once: the other one created it
		return info, nil
	}
	return info, err
}
