package intent

import (
	"context"

	"github.com/google/uuid"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pki"
)

// ExternalAgent is a machine whose agent is another system's: it has no key, and is told apart by
// what its own system calls it.
type ExternalAgent struct {
	System      string // whose agent it has: sensu
	Namespace   string
	Name        string // as that system has it, which is not always a name here
	AgentReport AgentReport
	Lifecycle   *model.Lifecycle // of the node, where it is made; nil: it stays
}

// UID is the immutable id of the node that the machine is, or would be.
func (m *ExternalAgent) UID() uuid.UUID {
	space := uuid.MustParse("5d1c9a0e-6f3b-4c55-9a59-0d6f1c2b7e44") // ours, for ids of strangers
	return uuid.NewSHA1(space, []byte(m.System+"\x00"+m.Namespace+"\x00"+m.Name))
}

// IsExternalAgent says whether an id is that of a machine with another system's agent: ours have random ones.
func IsExternalAgent(uid uuid.UUID) bool { return uid.Version() == 5 }

// RegisterExternal finds the node of a stranger, and makes it where it comes for the first time: with
// its name, or that with a number behind it where another machine has it. What a machine
// says of itself gives it no place in what is trusted. One that was forgotten comes as a new
// node: it has no identity that it could reset.
func (s *Service) RegisterExternal(ctx context.Context, by Actor, m *ExternalAgent) (NodeInfo, error) {
	uid := m.UID()
	if info, ok := s.LookupNode(uid); ok {
		return info, nil
	}
	t, gone := s.Tombstone(uid)
	if gone && t.Why != ReasonForgotten {
		return NodeInfo{}, model.Errorf(model.Forbidden, "%s", t.Sentence()).WithHint("%s", t.Hint())
	}
	if _, ok := s.namespaceID(m.Namespace); !ok {
		return NodeInfo{}, s.noNamespace(m.Namespace)
	}
	if gone {
		if err := s.LiftTombstone(ctx, by, uid.String()); err != nil && model.ClassOf(err) != model.NotFound {
			return NodeInfo{}, err
		}
	}
	_, err := s.register(ctx, by, "", pki.JoinToken{Namespace: m.Namespace, Lifecycle: m.Lifecycle}, pki.EnrolRequest{
		Name: m.Name, Namespace: m.Namespace, Facts: m.AgentReport.Facts, Labels: m.AgentReport.Labels, Groups: m.AgentReport.Groups,
		Returns: &pki.Returning{UID: uid, Namespace: m.Namespace},
	}, false)
	info, ok := s.LookupNode(uid)
	if err == nil && !ok {
		err = model.Errorf(model.Unavailable, "node %s was made, and is there no more", m.Name)
	}
	if ok { // it came by two connections at once: one made it
		return info, nil
	}
	return info, err
}

// CheckNamespace refuses a namespace that is not there.
func (s *Service) CheckNamespace(name string) error {
	if _, ok := s.namespaceID(name); !ok {
		return s.noNamespace(name)
	}
	return nil
}

func (s *Service) noNamespace(name string) error {
	return model.Errorf(model.NotFound, "there is no namespace %q", name).WithHint("muster get namespaces; one is made by muster apply, kind Namespace")
}
