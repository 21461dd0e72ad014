package kind

import (
	"fmt"
	"maps"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/model"
)

// validateCommand validates a command, either a shell text or a list of arguments.
func (v *Validator) validateCommand(field string, c *model.Command) {
	switch {
	case c == nil:
	case c.Argv != nil && (len(c.Argv) == 0 || c.Argv[0] == ""), c.Argv == nil && strings.TrimSpace(c.Shell) == "":
		v.Flaw(field, "", "empty")
	case len(c.Argv) > maxEntries:
		v.LimitElements(field, len(c.Argv))
	case len(c.Shell) > maxLine || slices.ContainsFunc(c.Argv, func(a string) bool { return len(a) > maxLine }):
		v.Flaw(field, "put the command into a script", "longer than %d bytes", maxLine)
	case strings.ContainsRune(c.Shell, 0) || slices.ContainsFunc(c.Argv, func(a string) bool { return strings.ContainsRune(a, 0) }):
		v.Flaw(field, "", "contains a zero byte")
	}
}

// validateEnv validates the environment variables of a command.
func (v *Validator) validateEnv(field string, env map[string]string) {
	v.LimitElements(field, len(env))
	for _, name := range slices.Sorted(maps.Keys(env)) {
		at := field + "." + name
		v.refuseRedacted(at, env[name])
		v.FlawIf(!isVariableName(name), at, variableHint, "invalid variable name %q", name)
		v.FlawIf(len(env[name]) > maxVariable || strings.ContainsRune(env[name], 0),
			at, "put the value into a file on the node", "expected at most %d bytes without a zero byte", maxVariable)
	}
}

// validateCommandSecrets validates the environment variables that give secrets to a command. They must differ from its
// other variables in env. A spec that has secrets and no command gets the flaw noCommand with the hint.
func (v *Validator) validateCommandSecrets(secrets []model.CommandSecret, command *model.Command, env map[string]string, hint, noCommand string) {
	v.MissingIf(len(secrets) > 0 && command == nil, "spec.secrets", hint, "%s", noCommand)
	if len(secrets) > model.MaxCheckSecrets {
		v.Flaw("spec.secrets", "", "%d secrets, at most %d", len(secrets), model.MaxCheckSecrets)
		return
	}
	seen := map[string]bool{}
	for i, one := range secrets {
		at, name := fmt.Sprintf("spec.secrets[%d]", i), one.Env
		_, plain := env[name]
		switch {
		case name == "":
			v.Missing(at+".env", "write the variable that the command reads: env: DB_PASSWORD", "missing")
		case !isVariableName(name):
			v.Flaw(at+".env", variableHint, "invalid variable name %q", name)
		case name == "PATH" || strings.HasPrefix(name, "MUSTER_"):
			v.Flaw(at+".env", "give the variable another name", "the variable %s cannot hold a secret", name)
		case seen[name] || plain:
			v.Flaw(at+".env", "keep one entry", "%s is set twice", name)
		}
		seen[name] = true
		v.MissingIf(one.Secret == "", at+".secret", "write the name of a Secret", "missing")
	}
}

// refuseAssets records an error if a spec lists Assets (program archives) but has no command.
func (v *Validator) refuseAssets(names []string, c *model.Command, noCommand string) {
	v.MissingIf(len(names) > 0 && c == nil, "spec.assets", "leave the field out", "%s", noCommand)
}

// validateTemplates validates the texts of a spec as templates with variables.
func (v *Validator) validateTemplates(texts model.TemplateTexts) {
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

// Secret returns the resource kind Secret, the place where a secret value is stored.
func Secret() Kind {
	return Define(Definition[*model.SecretSpec]{
		KindInfo: model.KindInfo{Name: "Secret", Plural: "secrets", Short: "se", Namespaced: true},
		Users:    true,
		Example: `kind: Secret
metadata: {name: db-password}
spec:
  agentFile: db-password
`,
		Validate: validateSecret,
		Columns: []Column[*model.SecretSpec]{
			usersColumn[*model.SecretSpec](),
			{"VALUE IN", 60, func(_ ResourceView, s *model.SecretSpec) string { return s.Location() }},
		},
		Details: func(_ ResourceView, s *model.SecretSpec) []Detail { return []Detail{{"value in", s.Location()}} },
		Effect:  effectOfUsers[*model.SecretSpec],
	})
}

const secretHint = "write agentFile: NAME, agentEnv: NAME, file: /etc/muster/NAME, env: NAME or vault: {…}; for their meaning: muster explain secret"

// validateSecret validates the spec of a Secret, which says where the secret value is stored.
func validateSecret(v *Validator, s *model.SecretSpec) {
	places := countTrue(s.AgentEnv != "", s.AgentFile != "", s.Env != "", s.File != "", s.Vault != nil)
	v.MissingIf(places == 0, "spec", secretHint, "the source of the value is missing")
	v.FlawIf(places > 1, "spec", "keep one of these fields", "the value has more than one source")
	v.FlawIf(s.AgentEnv != "" && (!isVariableName(s.AgentEnv) || len(s.AgentEnv) > model.MaxName),
		"spec.agentEnv", variableHint, "invalid variable name %q", s.AgentEnv)
	if bare, ours := strings.CutPrefix(s.AgentEnv, model.SecretVariable); ours {
		v.Flaw("spec.agentEnv", "write "+bare, "the agent adds the prefix %s to the name", model.SecretVariable)
	}
	if f := s.AgentFile; f != "" && (f != path.Clean(f) || strings.HasPrefix(f, "/") || f == ".." || strings.HasPrefix(f, "../") || len(f) > model.MaxText || model.HasControl(f)) {
		v.Flaw("spec.agentFile", "write the name of a file in the folder that the agent's --secrets-dir names", "%q is not the name of a file in the folder", f)
	}
	switch {
	case strings.HasPrefix(s.Env, "MUSTER_"):
		v.Flaw("spec.env", "give the variable another name", "variables MUSTER_… are the server's own settings")
	case strings.ContainsAny(s.Env, "= \t\n\x00") || len(s.Env) > model.MaxName:
		v.Flaw("spec.env", "", "invalid variable name %q", s.Env)
	}
	validateFullPath(v, "spec.file", s.File)
	validateVault(v, s.Vault)
	v.InRange("spec.lease", s.Lease, model.Duration(time.Second), model.Duration(24*time.Hour))
	v.FlawIf(s.Lease != 0 && places == 1 && !s.OnServer(),
		"spec.lease", "leave the field out", "an agent reads the value for each run, so a lease is not possible")
}

// validateVault validates the address and path of a secret in Vault.
func validateVault(v *Validator, w *model.Vault) {
	if w == nil {
		return
	}
	u, err := url.Parse(w.Address)
	switch {
	case w.Address == "":
		v.Missing("spec.vault.address", "write https://HOST:8200", "missing")
	case err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "":
		v.Flaw("spec.vault.address", "write https://HOST:8200", "%q is not the address of a web server", model.RedactURL(w.Address))
	}
	validateVaultPath(v, "spec.vault.mount", w.Mount, false)
	validateVaultPath(v, "spec.vault.path", w.Path, true)
	v.FlawIf(strings.HasPrefix(w.Path, "data/") && w.Engine != "v1",
		"spec.vault.path", "write "+strings.TrimPrefix(w.Path, "data/"), "Muster adds data/: expected the path for vault kv get")
	v.MissingIf(w.Key == "", "spec.vault.key", "write the key of the value under the path: key: password", "missing")
	v.RequireLine("spec.vault.key", w.Key, model.MaxName)
	v.requireOneOf("spec.vault.engine", w.Engine, "v1", "v2")
	v.RequireLine("spec.vault.namespace", w.Namespace, model.MaxName)
	v.MissingIf(w.TokenFile == "",
		"spec.vault.tokenFile", "write tokenFile: /etc/muster/vault-token, a file that the server's user may read", "missing")
	validateFullPath(v, "spec.vault.tokenFile", w.TokenFile)
	validateFullPath(v, "spec.vault.ca", w.CA)
}

// validateVaultPath records an error unless a text is a clean path in Vault.
func validateVaultPath(v *Validator, field, text string, needed bool) {
	switch {
	case text == "" && needed:
		v.Missing(field, "write the path for vault kv get", "missing")
	case text != "" && (text != path.Clean(text) || strings.HasPrefix(text, "/") || strings.HasPrefix(text, "..") || len(text) > model.MaxText || model.HasControl(text)):
		v.Flaw(field, "write the path without / at its ends, such as app/db", "invalid path %q", text)
	}
}

// validateFullPath records an error unless a text is an absolute path.
func validateFullPath(v *Validator, field, text string) {
	v.FlawIf(text != "" && (!strings.HasPrefix(text, "/") || len(text) > model.MaxText || model.HasControl(text)),
		field, "write the absolute path on the server, from /", "%q is not an absolute path", text)
}

// Asset returns the resource kind Asset, an archive with programs for commands.
func Asset() Kind {
	return Define(Definition[*model.AssetSpec]{
		KindInfo: model.KindInfo{Name: "Asset", Plural: "assets", Short: "as", Namespaced: true},
		Users:    true,
		Example: `kind: Asset
metadata: {name: check-plugins}
spec:
  builds:
    - os: linux
      arch: amd64
      url: https://files.example.org/check-plugins.tar.gz
      sha512: ` + strings.Repeat("0123456789abcdef", 8) + `
`,
		Validate: validateAsset,
		Redact: func(s *model.AssetSpec) *model.AssetSpec {
			out := *s
			out.Builds = slices.Clone(s.Builds)
			for i := range out.Builds {
				out.Builds[i].URL = model.RedactQuery(out.Builds[i].URL)
			}
			return &out
		},
		Columns: []Column[*model.AssetSpec]{
			usersColumn[*model.AssetSpec](),
			{"FOR", 80, func(_ ResourceView, s *model.AssetSpec) string {
				list := make([]string, len(s.Builds))
				for i := range s.Builds {
					list[i] = s.Builds[i].Platform()
				}
				return strings.Join(list, ", ")
			}},
		},
		Details: func(_ ResourceView, s *model.AssetSpec) (list []Detail) {
			for i := range s.Builds {
				list = append(list, Detail{"for", s.Builds[i].Platform()}, Detail{"  sha512", s.Builds[i].SHA512})
				if s.Builds[i].URL != "" {
					list = append(list, Detail{"  url", s.Builds[i].URL})
				}
			}
			return list
		},
		Effect: effectOfUsers[*model.AssetSpec],
	})
}

// validateAsset validates the spec of an Asset.
func validateAsset(v *Validator, s *model.AssetSpec) {
	v.MissingIf(len(s.Builds) == 0,
		"spec.builds", "upload an archive: muster asset add NAME FILE --os linux --arch amd64", "no archive is declared")
	if len(s.Builds) > model.MaxBuilds {
		v.Flaw("spec.builds", "", "more than %d", model.MaxBuilds)
		return
	}
	before := map[string]int{}
	for i := range s.Builds {
		b, at := &s.Builds[i], fmt.Sprintf("spec.builds[%d]", i)
		if b.SHA512 == "" {
			v.Missing(at+".sha512", "sha512sum FILE", "missing")
		} else if _, err := model.ParseAssetSum(b.SHA512); err != nil {
			v.Flaw(at+".sha512", "sha512sum FILE", "expected 128 characters of 0-9 and a-f")
		}
		if u, err := url.Parse(b.URL); b.URL != "" && (err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || len(b.URL) > maxLine) {
			v.Flaw(at+".url", "write https://…", "expected the address of the archive")
		}
		if u, err := url.Parse(b.URL); err == nil && u.User != nil {
			v.Flaw(at+".url", "download the archive, then: muster asset add NAME FILE", "a password is not allowed here: every reader could see it")
		}
		v.refuseRedacted(at+".url", b.URL)
		for _, f := range []struct{ field, text string }{{"os", b.OS}, {"arch", b.Arch}, {"distribution", b.Distribution}, {"distributionVersion", b.DistributionVersion}} {
			v.FlawIf(len(f.text) > model.MaxText || model.HasControl(f.text) || strings.ContainsAny(f.text, " \t"),
				at+"."+f.field, "show the facts of a node: muster describe node NODE", "expected one word")
		}
		if _, err := model.ParseVersionRange(b.DistributionVersion); err != nil {
			v.Flaw(at+".distributionVersion", "write >=8, <10 or >=8,<10", "expected a version or a range of first numbers")
		}
		if first, twice := before[b.Platform()]; twice {
			v.Flaw(at, "write the machines of the build: os, arch, distribution, distributionVersion", "the build has no effect: builds[%d] is for the same machines (%s)", first, b.Platform())
		} else {
			before[b.Platform()] = i
		}
	}
}
