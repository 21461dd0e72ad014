package kind

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/muster-fleet/muster/internal/model"
)

func (v *Validator) command(field string, c *model.Command) {
	switch {
	case c == nil:
	case c.Argv != nil && (len(c.Argv) == 0 || c.Argv[0] == ""), c.Argv == nil && strings.TrimSpace(c.Shell) == "":
		v.Flaw(field, "", "empty")
	case len(c.Argv) > maxEntries:
		v.Bound(field, len(c.Argv))
	case len(c.Shell) > maxLine || slices.ContainsFunc(c.Argv, func(a string) bool { return len(a) > maxLine }):
		v.Flaw(field, "put it into a script", "longer than %d bytes", maxLine)
	case strings.ContainsRune(c.Shell, 0) || slices.ContainsFunc(c.Argv, func(a string) bool { return strings.ContainsRune(a, 0) }):
		v.Flaw(field, "", "holds a zero byte")
	}
}

func (v *Validator) env(field string, env map[string]string) {
	v.Bound(field, len(env))
	for _, name := range slices.Sorted(maps.Keys(env)) {
		at := field + "." + name
		v.unredacted(at, env[name])
		if !isVariable(name) {
			v.Flaw(at, "letters, digits and _, not beginning with a digit", "%q is no name of a variable", name)
		}
		if len(env[name]) > maxVariable || strings.ContainsRune(env[name], 0) {
			v.Flaw(at, "put it into a file on the node", "want at most %d bytes without a zero byte", maxVariable)
		}
	}
}

// secretsIn validates the secrets in the environment of a command, of a check,
// a handler or a mutator, whose other variables are env.
func (v *Validator) secretsIn(secrets []model.CommandSecret, env map[string]string) {
	if len(secrets) > model.MaxCheckSecrets {
		v.Flaw("spec.secrets", "", "%d secrets, at most %d", len(secrets), model.MaxCheckSecrets)
		return
	}
	seen := map[string]bool{}
	for i, one := range secrets {
		_, plain := env[one.Env]
		v.secretIn(fmt.Sprintf("spec.secrets[%d]", i), one.Env, one.Secret, seen[one.Env] || plain)
		seen[one.Env] = true
	}
}

// secretIn validates one secret; twice: its variable is set already.
func (v *Validator) secretIn(at, env, secret string, twice bool) {
	switch {
	case env == "":
		v.Missing(at+".env", "write the variable that the command reads: env: DB_PASSWORD", "missing")
	case !isVariable(env):
		v.Flaw(at+".env", "letters, digits and _, not beginning with a digit", "%q is no name of a variable", env)
	case env == "PATH" || strings.HasPrefix(env, "MUSTER_"):
		v.Flaw(at+".env", "give the variable another name", "%s is not for secrets", env)
	case twice:
		v.Flaw(at+".env", "keep one of them", "%s is set twice", env)
	}
	if secret == "" {
		v.Missing(at+".secret", "write the name of a Secret", "missing")
	} else {
		v.SharedName(at+".secret", secret)
	}
}

// commandSecrets validates the secrets of a command that the server runs; hint is for a spec without a command.
func (v *Validator) commandSecrets(secrets []model.CommandSecret, command *model.Command, env map[string]string, hint string) {
	if len(secrets) == 0 {
		return
	}
	if command == nil {
		v.Missing("spec.secrets", hint, "only a command has an environment")
	}
	v.secretsIn(secrets, env)
}

// assets validates the names of assets.
func (v *Validator) assets(names []string) {
	if len(names) > model.MaxAssets {
		v.Flaw("spec.assets", "", "more than %d", model.MaxAssets)
	}
	v.Names("spec.assets", names, v.SharedName)
}

// commandsAssets validates the names of assets for a command; why explains that without one they are useless.
func (v *Validator) commandsAssets(names []string, c *model.Command, why string) {
	v.assets(names)
	if len(names) > 0 && c == nil {
		v.Missing("spec.assets", "leave it out", "%s", why)
	}
}

// templates records the flaws of wrong variables.
func (v *Validator) templates(texts model.TemplateTexts) {
	_, err := texts.Parse()
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return
	}
	for _, err := range joined.Unwrap() {
		if f, ok := err.(*model.FieldError); ok {
			v.Flaw("spec."+f.Field, "", "%v", f.Err)
		}
	}
}
