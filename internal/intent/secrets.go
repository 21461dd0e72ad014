package intent

import (
	"bytes"
	"context"
	"fmt"

	"github.com/muster-fleet/muster/internal/model"
)

// reach refuses checks that would hand values, which the server knows, to machines that brought
// themselves in: such a check lands by lists of nodes and trusted groups alone. It looks at what is
// applied, and at the checks that are there already where a Group or Secret is.
func (s *Service) reach(ctx context.Context, l *lookup) (problems []error, err error) {
	others := false
	for key, r := range l.applied {
		switch r.Spec.(type) {
		case *model.CheckSpec:
			if err := s.reaches(ctx, r, l); model.ClassOf(err) == model.Invalid {
				problems = append(problems, err)
			} else if err != nil {
				return nil, err
			}
		default:
			others = others || key.Kind == "Group" || key.Kind == "Secret"
		}
	}
	if !others {
		return problems, nil
	}
	rows, err := s.opts.Store.List(ctx, ListQuery{Kind: "Check"})
	if err != nil {
		return nil, err
	}
	for _, row := range rows {
		if l.applied[row.Key] != nil || !namesSecrets(row) {
			continue
		}
		r, err := s.decode(row)
		if err != nil {
			return nil, err
		}
		if err := s.reaches(ctx, r, l); model.ClassOf(err) == model.Invalid {
			problems = append(problems, err)
		} else if err != nil {
			return nil, err
		}
	}
	return problems, nil
}

func namesSecrets(row Row) bool { return bytes.Contains(row.Body, []byte(`"secrets"`)) }

// reaches is reach for one check.
func (s *Service) reaches(ctx context.Context, r *model.Resource, l *lookup) error {
	key, spec := KeyOf(r), r.Spec.(*model.CheckSpec)
	secret, err := s.servedSecret(ctx, key, spec, l)
	if err != nil || secret == "" {
		return err
	}
	for t, at := spec.Targets, "targets"; t != nil; t, at = t.Except, at+".except" {
		refuse := func(hint, format string, args ...any) error {
			return model.Errorf(model.Invalid, "%s: %s: it hands out the secret %s, and %s", key, at, secret, fmt.Sprintf(format, args...)).WithHint("%s", hint)
		}
		if t.Where != "" {
			return refuse("write that condition into a group with trusted: true, and name the group here", "a condition here reads what machines say of themselves")
		}
		for _, name := range t.Groups {
			ns, group := model.SplitRef(key.Namespace, name)
			found, err := specOf[model.GroupSpec](ctx, l, Key{"Group", ns, group})
			switch {
			case err != nil:
				return err
			case found == nil:
				return refuse("apply the group first, or in the same file, with trusted: true", "group %s does not exist", name)
			case !found.Trusted:
				return refuse("give the group trusted: true, or name another one that has it; a Secret with agentFile or agentEnv asks for no trust", "group %s is not trusted: machines may bring themselves into it", name)
			}
		}
		missing, err := s.missingNodes(ctx, key.Namespace, t.Nodes, l)
		if err != nil {
			return err
		}
		if len(missing) > 0 {
			return refuse("let the machine join, look at it, and name it then; or join it with a token that names a trusted group", "%s: whoever joins first under that name would get it", missing[0])
		}
	}
	return nil
}

// servedSecret names the first of a check's secrets that the server knows; empty: there is none.
func (s *Service) servedSecret(ctx context.Context, check Key, spec *model.CheckSpec, l *lookup) (string, error) {
	if spec.Targets == nil {
		return "", nil
	}
	for _, use := range spec.Secrets {
		ns, name := model.SplitRef(check.Namespace, use.Secret)
		spec, err := specOf[model.SecretSpec](ctx, l, Key{"Secret", ns, name})
		if err != nil {
			return "", err
		}
		if spec != nil && spec.OnServer() {
			return use.Secret, nil
		}
	}
	return "", nil
}

// tookCheck notes the nodes that a check with secrets names: see trustedNames.
func (s *Service) tookCheck(row Row) error {
	if !namesSecrets(row) {
		s.trusted.set(row.Key, nil)
		return nil
	}
	r, err := s.decode(row)
	if err != nil {
		return err
	}
	var refs []string
	if spec := r.Spec.(*model.CheckSpec); len(spec.Secrets) > 0 && spec.Targets != nil {
		refs = spec.Targets.Nodes
	}
	s.trusted.set(row.Key, namesOf(row.Namespace, refs))
	return nil
}
