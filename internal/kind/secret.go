package kind

import (
	"net/url"
	"path"
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/model"
)

// Secret returns the kind of places where secret values are.
func Secret() Kind {
	return Define(func() *model.SecretSpec { return &model.SecretSpec{} }, Definition[*model.SecretSpec]{
		KindInfo: model.KindInfo{Name: "Secret", Plural: "secrets", Short: "se", Namespaced: true},
		Users:    true,
		Example: `kind: Secret
metadata: {name: db-password}
spec:
  agentFile: db-password
`,
		Validate: func(v *Validator, _ *model.Resource, s *model.SecretSpec) { validateSecret(v, s) },
		Columns: []Column[*model.SecretSpec]{
			usersColumn[*model.SecretSpec](),
			{"VALUE IN", 60, func(_ View, s *model.SecretSpec) string { return s.Location() }},
		},
		Details: func(_ View, s *model.SecretSpec) []Detail { return []Detail{{"value in", s.Location()}} },
		Effect:  usersEffect[*model.SecretSpec],
	})
}

const secretHint = "write agentFile: NAME, agentEnv: NAME, file: /etc/muster/NAME, env: NAME or vault: {…}; muster explain secret says what each is"

func validateSecret(v *Validator, s *model.SecretSpec) {
	said := 0
	for _, there := range []bool{s.AgentEnv != "", s.AgentFile != "", s.Env != "", s.File != "", s.Vault != nil} {
		if there {
			said++
		}
	}
	switch {
	case said == 0:
		v.Missing("spec", secretHint, "does not say where the value is")
	case said > 1:
		v.Flaw("spec", "keep one of them", "says more than one place")
	}
	if s.AgentEnv != "" && (!isVariable(s.AgentEnv) || len(s.AgentEnv) > model.MaxName) {
		v.Flaw("spec.agentEnv", "letters, digits and _, not beginning with a digit", "%q is no name of a variable", s.AgentEnv)
	}
	if bare, ours := strings.CutPrefix(s.AgentEnv, model.SecretVariable); ours {
		v.Flaw("spec.agentEnv", "write "+bare, "%s is what the variable's name begins with by itself", model.SecretVariable)
	}
	if f := s.AgentFile; f != "" && (f != path.Clean(f) || strings.HasPrefix(f, "/") || f == ".." || strings.HasPrefix(f, "../") || len(f) > model.MaxText || model.HasControl(f)) {
		v.Flaw("spec.agentFile", "write the name of a file in the folder that the agent's --secrets-dir names", "%q is no path within a folder", f)
	}
	switch {
	case strings.HasPrefix(s.Env, "MUSTER_"):
		v.Flaw("spec.env", "give the variable another name", "variables MUSTER_… are the server's own settings")
	case strings.ContainsAny(s.Env, "= \t\n\x00") || len(s.Env) > model.MaxName:
		v.Flaw("spec.env", "", "%q is no name of a variable", s.Env)
	}
	validateFullPath(v, "spec.file", s.File)
	if s.Vault != nil {
		validateVault(v, s.Vault)
	}
	v.InRange("spec.lease", s.Lease, model.Duration(time.Second), model.Duration(24*time.Hour))
	if s.Lease != 0 && said == 1 && !s.OnServer() {
		v.Flaw("spec.lease", "leave it out", "the agent reads it anew for each run")
	}
}

func validateVault(v *Validator, w *model.Vault) {
	u, err := url.Parse(w.Address)
	switch {
	case w.Address == "":
		v.Missing("spec.vault.address", "write https://HOST:8200", "missing")
	case err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "":
		v.Flaw("spec.vault.address", "write https://HOST:8200", "%q is no address of a web server", model.RedactURL(w.Address))
	}
	validateVaultPath(v, "spec.vault.mount", w.Mount, false)
	validateVaultPath(v, "spec.vault.path", w.Path, true)
	if strings.HasPrefix(w.Path, "data/") && w.Engine != "v1" {
		v.Flaw("spec.vault.path", "write "+strings.TrimPrefix(w.Path, "data/"), "data/ is put there by itself: want the path as vault kv get takes it")
	}
	if w.Key == "" {
		v.Missing("spec.vault.key", "write which of the values under the path: key: password", "missing")
	} else if len(w.Key) > model.MaxName || model.HasControl(w.Key) {
		v.Flaw("spec.vault.key", "", "want one line of at most %d bytes", model.MaxName)
	}
	v.oneOf("spec.vault.engine", w.Engine, "v1", "v2")
	if len(w.Namespace) > model.MaxName || model.HasControl(w.Namespace) {
		v.Flaw("spec.vault.namespace", "", "want one line of at most %d bytes", model.MaxName)
	}
	if w.TokenFile == "" {
		v.Missing("spec.vault.tokenFile", "write tokenFile: /etc/muster/vault-token, a file that the server's user may read", "missing")
	}
	validateFullPath(v, "spec.vault.tokenFile", w.TokenFile)
	validateFullPath(v, "spec.vault.ca", w.CA)
}

func validateVaultPath(v *Validator, field, text string, needed bool) {
	switch {
	case text == "" && needed:
		v.Missing(field, "write it as vault kv get takes it", "missing")
	case text != "" && (text != path.Clean(text) || strings.HasPrefix(text, "/") || strings.HasPrefix(text, "..") || len(text) > model.MaxText || model.HasControl(text)):
		v.Flaw(field, "write it without / at its ends, as app/db", "%q is no path", text)
	}
}

func validateFullPath(v *Validator, field, text string) {
	if text != "" && (!strings.HasPrefix(text, "/") || len(text) > model.MaxText || model.HasControl(text)) {
		v.Flaw(field, "write the whole path on the server, from /", "%q is no whole path", text)
	}
}
