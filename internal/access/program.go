package access

import (
	"context"
	"slices"

	"github.com/muster-fleet/muster/internal/model"
)

// Program is a user with a role of programs, as of the time when its password was checked.
type Program struct {
	Name       string
	Namespaces []string // where its agents may be, or its alerts go; empty: everywhere
	role       string
	hash       string
}

// May reports whether the program may act in a namespace.
func (p *Program) May(namespace string) bool {
	return len(p.Namespaces) == 0 || slices.Contains(p.Namespaces, namespace)
}

// AgentProgram finds a user with the role agent that has proven its name by other means.
func (s *Service) AgentProgram(name string) (Program, error) {
	row, ok := s.index.user(name)
	if !ok || row.Role != Agent {
		return Program{}, errBadProgram(Agent)
	}
	return Program{Name: name, Namespaces: row.Namespaces, role: Agent, hash: row.Hash}, nil
}

// LoginProgram checks the password of a user with a role of programs. A password that was seen
// before, right or wrong, costs a look into memory, and admit, which may be nil, is not called.
func (s *Service) LoginProgram(ctx context.Context, role, name, password string, admit Admit) (Program, error) {
	row, known := s.index.user(name)
	if !known || row.Role != role {
		known, row.Hash = false, unknownUserHash
	}
	good, err := s.programs.check(ctx, name, password, row.Hash, s.opts.Now, admit)
	if err != nil {
		return Program{}, err
	}
	if !good || !known {
		return Program{}, errBadProgram(role)
	}
	return Program{Name: name, Namespaces: row.Namespaces, role: role, hash: row.Hash}, nil
}

// Current reports whether a program's user is unchanged since its password was checked.
func (s *Service) Current(p *Program) bool {
	row, ok := s.index.user(p.Name)
	return ok && row.Role == p.role && row.Hash == p.hash && slices.Equal(row.Namespaces, p.Namespaces)
}

func errBadProgram(role string) error {
	return model.Errorf(model.Unauthenticated, "no user with the role %s has this password", role).
		WithHint("on the server: muster auth user create NAME --role %s", role)
}
