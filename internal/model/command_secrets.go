package model

import (
	"fmt"
	"maps"
	"slices"
)

// Secrets in the environment of a command that the server runs, a handler's or a mutator's: one way
// for both.

// namedIn returns the Secrets that a command names.
func namedIn(secrets []CommandSecret) (list []NamedSecret) {
	for i, one := range secrets {
		list = append(list, NamedSecret{fmt.Sprintf("secrets[%d].secret", i), one.Secret})
	}
	return list
}

// wholeSecrets returns the secrets with references as NAMESPACE/NAME: the runner of a command knows no namespace.
func wholeSecrets(namespace string, secrets []CommandSecret) []CommandSecret {
	whole := slices.Clone(secrets)
	for i := range whole {
		whole[i].Secret = QualifyRef(namespace, whole[i].Secret)
	}
	return whole
}

// revealed returns a new environment with the values of the secrets.
func revealed(env map[string]string, secrets []CommandSecret, read func(Secret) (string, error)) (map[string]string, error) {
	if len(secrets) == 0 {
		return env, nil
	}
	all := maps.Clone(env)
	if all == nil {
		all = map[string]string{}
	}
	for i, one := range secrets {
		value, err := read(Secret{Named: one.Secret})
		if err != nil {
			return nil, Errorf(Invalid, "spec.secrets[%d]: %w", i, err)
		}
		all[one.Env] = value
	}
	return all, nil
}

// hiddenIn returns the values of an environment, which no output may show.
func hiddenIn(env map[string]string) (hidden []string) {
	for _, name := range slices.Sorted(maps.Keys(env)) {
		if env[name] != "" {
			hidden = append(hidden, env[name])
		}
	}
	return hidden
}

// NamedSecrets returns all Secrets that the mutator names.
func (s *MutatorSpec) NamedSecrets() []NamedSecret { return namedIn(s.Secrets) }

// QualifyReferences returns the mutator with its Secrets and Assets as NAMESPACE/NAME: the runner of its command
// knows no namespace. It does not change s.
func (s *MutatorSpec) QualifyReferences(namespace string) *MutatorSpec {
	out := *s
	out.Assets, out.Secrets = slices.Clone(s.Assets), wholeSecrets(namespace, s.Secrets)
	for i, name := range out.Assets {
		out.Assets[i] = QualifyRef(namespace, name)
	}
	return &out
}

// Reveal returns the mutator with the values of its secrets in its environment, like HandlerSpec.Reveal. hidden
// are all values of that environment. It does not change s.
func (s *MutatorSpec) Reveal(read func(Secret) (string, error)) (out *MutatorSpec, hidden []string, err error) {
	with := *s
	if with.Env, err = revealed(s.Env, s.Secrets, read); err != nil {
		return nil, nil, err
	}
	return &with, hiddenIn(with.Env), nil
}
