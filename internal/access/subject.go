package access

import (
	"maps"
	"slices"

	"github.com/muster-fleet/muster/internal/model"
)

// Subject makes a request.
type Subject struct {
	User  string
	Token string // id of the session or token used
	Grants
}

// May reports whether the subject may do this in a namespace.
func (s *Subject) May(verb Verb, namespace string) bool {
	return s.levelIn(namespace) >= int(verb)
}

// MayEverywhere reports whether the subject may do this in every namespace, those that do not
// exist yet included.
func (s *Subject) MayEverywhere(verb Verb) bool { return level(s.Role) >= int(verb) }

// MayRun reports whether the subject may run commands on nodes of a namespace.
func (s *Subject) MayRun(namespace string) bool { return s.Run && s.May(Operate, namespace) }

// NamespacesFor lists, sorted, the namespaces in which a binding grants the verb. Call it only
// where MayEverywhere is false.
func (s *Subject) NamespacesFor(verb Verb) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(s.Bindings)), func(namespace string) bool { return !s.May(verb, namespace) })
}

// Allow refuses an operation that the subject may do nowhere.
func (s *Subject) Allow(n Need) error {
	switch {
	case n.Scope == Public:
		return nil
	case level(s.Role) == 0 && len(s.Bindings) == 0:
		return s.Refuse(n)
	case n.Scope == Anybody, s.MayEverywhere(n.Verb):
		return nil
	case n.Scope == Namespaced && len(s.NamespacesFor(n.Verb)) > 0:
		return nil
	}
	return s.Refuse(n)
}

// AllowIn refuses an operation in a namespace. The answer is the same whether the namespace exists.
func (s *Subject) AllowIn(n Need, namespace string) error {
	if s.May(n.Verb, namespace) {
		return nil
	}
	if len(s.Bindings) == 0 || s.May(Read, namespace) {
		return s.Refuse(n)
	}
	err := model.Errorf(model.Forbidden, "%s has no role in namespace %s (%s)", s.User, namespace, &s.Grants)
	if namespace == model.SharedNamespaceName {
		return err.WithHint("what is there reaches the nodes of all namespaces: it takes a role that holds in every one")
	}
	return err.WithHint("an administrator gives one: muster auth user grant %s --bind %s=%s", s.User, namespace, roleFor(n.Verb))
}

// roleFor is the lowest role that may do this.
func roleFor(verb Verb) string {
	return [...]string{Read: Viewer, Operate: Operator, Change: Admin}[verb]
}

// Refuse is the error that says why the subject may not do this, and names roles that may.
func (s *Subject) Refuse(n Need) error {
	may := "look and not change"
	switch {
	case forPrograms(s.Role):
		may = "bring alerts in, and nothing else"
	case s.Role == "" && len(s.Bindings) > 0:
		may = "act in single namespaces"
	case s.Role == Operator:
		may = "look, run checks, silence, acknowledge and resolve events, and not change what is declared"
	}
	err := model.Errorf(model.Forbidden, "%s may %s (role %s)", s.User, may, &s.Grants)
	if n.Verb == Operate {
		return err.WithHint("log in as somebody with the role operator or admin: muster login -u NAME")
	}
	return err.WithHint("log in as somebody who may: muster login -u admin")
}
