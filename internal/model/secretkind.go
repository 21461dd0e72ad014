package model

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"path"
	"strings"
	"time"
)

// SecretSpec says where a value is that checks need and nobody may see: never the value itself.
// Exactly one of agentEnv, agentFile, env, file and vault. The first two are read by the agent, on
// the node; the others by the server, which hands the value to agents whose checks name it, when
// they run them, over mutual TLS.
type SecretSpec struct {
	// The variable MUSTER_SECRET_NAME of the agent's environment, written as NAME; commands do not
	// inherit it.
	AgentEnv string `json:"agentEnv,omitempty"`
	// A file in the agent's folder of secrets (its setting --secrets-dir), written from there.
	AgentFile string `json:"agentFile,omitempty"`
	// A variable of the server's environment.
	Env string `json:"env,omitempty"`
	// A file on the server, which its user may read.
	File string `json:"file,omitempty"`
	// A key in a KV engine of HashiCorp Vault or OpenBao.
	Vault *Vault `json:"vault,omitempty"`
	// How long an agent may keep in memory what the server handed it; default 5m. Vault may say
	// less.
	Lease Duration `json:"lease,omitempty"`
}

// Vault is where a value is in HashiCorp Vault or OpenBao.
type Vault struct {
	// https://vault.example.org:8200
	Address string `json:"address"`
	// Where the KV engine is mounted; default secret.
	Mount string `json:"mount,omitempty"`
	// The path behind the mount, as in vault kv get.
	Path string `json:"path"`
	// Which of the values there.
	Key string `json:"key"`
	// The KV engine's version, v1 or v2; default v2.
	Engine string `json:"engine,omitempty"`
	// The namespace, of OpenBao and Vault Enterprise.
	Namespace string `json:"namespace,omitempty"`
	// A file on the server with the token, which Vault Agent may keep fresh; it is read each time.
	TokenFile string `json:"tokenFile"`
	// A PEM file on the server with the CA of the address; default the system's.
	CA string `json:"ca,omitempty"`
}

// CommandSecret is a Secret in a variable of the command of a check, a handler or a mutator.
type CommandSecret struct {
	// The variable that the command finds it in, and the hooks of a check.
	Env string `json:"env"`
	// The Secret, of the same namespace or shared/NAME; for a handler or mutator one whose value
	// the server knows.
	Secret string `json:"secret"`
}

// ChunkSecret is what an agent knows of a CommandSecret: where to look, or what to ask for.
type ChunkSecret struct {
	Env       string
	Name      string // NAMESPACE/NAME
	AgentEnv  string // one of these, or else the server knows the value
	AgentFile string
}

// OnServer says whether the server knows the value.
func (s *SecretSpec) OnServer() bool { return s.AgentEnv == "" && s.AgentFile == "" }

// OnServer says whether the server knows the value.
func (s *ChunkSecret) OnServer() bool { return s.AgentEnv == "" && s.AgentFile == "" }

// Place says in words where the value is.
func (s *SecretSpec) Place() string {
	switch {
	case s.AgentEnv != "":
		return "the agent's environment, " + SecretVariable + s.AgentEnv
	case s.AgentFile != "":
		return "the agent's file " + s.AgentFile
	case s.Env != "":
		return "the server's environment, " + s.Env
	case s.File != "":
		return "the server's file " + s.File
	case s.Vault != nil:
		return "Vault at " + ShownURL(s.Vault.Address) + ": " + cmp.Or(s.Vault.Mount, "secret") + "/" + s.Vault.Path + ", key " + s.Vault.Key
	}
	return "nowhere"
}

// Kind implements Spec.
func (*SecretSpec) Kind() string { return "Secret" }

const (
	// SecretVariable begins the variables of an agent's environment that are secrets.
	SecretVariable = "MUSTER_SECRET_"
	// DefaultSecretLease is how long an agent keeps a value.
	DefaultSecretLease = 5 * time.Minute
	// MinSecret and MaxSecret are the bytes that a value may have: what is shorter stands in every
	// other word and cannot be hidden in an output.
	MinSecret, MaxSecret = 4, 16 << 10
	// MaxCheckSecrets is how many secrets one check may have.
	MaxCheckSecrets = 16
)

const secretHint = "write agentFile: NAME, agentEnv: NAME, file: /etc/muster/NAME, env: NAME or vault: {…}; muster explain secret says what each is"

func (v *validator) secretKind(s *SecretSpec) {
	said := 0
	for _, there := range []bool{s.AgentEnv != "", s.AgentFile != "", s.Env != "", s.File != "", s.Vault != nil} {
		if there {
			said++
		}
	}
	switch {
	case said == 0:
		v.absent("spec", secretHint, "does not say where the value is")
	case said > 1:
		v.flaw("spec", "keep one of them", "says more than one place")
	}
	if s.AgentEnv != "" && (!isVariable(s.AgentEnv) || len(s.AgentEnv) > maxName) {
		v.flaw("spec.agentEnv", "letters, digits and _, not beginning with a digit", "%q is no name of a variable", s.AgentEnv)
	}
	if bare, ours := strings.CutPrefix(s.AgentEnv, SecretVariable); ours {
		v.flaw("spec.agentEnv", "write "+bare, "%s is what the variable's name begins with by itself", SecretVariable)
	}
	if f := s.AgentFile; f != "" && (f != path.Clean(f) || strings.HasPrefix(f, "/") || f == ".." || strings.HasPrefix(f, "../") || len(f) > maxText || hasControl(f)) {
		v.flaw("spec.agentFile", "write the name of a file in the folder that the agent's --secrets-dir names", "%q is no path within a folder", f)
	}
	switch {
	case strings.HasPrefix(s.Env, "MUSTER_"):
		v.flaw("spec.env", "give the variable another name", "variables MUSTER_… are the server's own settings")
	case strings.ContainsAny(s.Env, "= \t\n\x00") || len(s.Env) > maxName:
		v.flaw("spec.env", "", "%q is no name of a variable", s.Env)
	}
	v.wholePath("spec.file", s.File)
	if s.Vault != nil {
		v.vault(s.Vault)
	}
	v.between("spec.lease", s.Lease, Duration(time.Second), Duration(24*time.Hour))
	if s.Lease != 0 && said == 1 && !s.OnServer() {
		v.flaw("spec.lease", "leave it out", "the agent reads it anew for each run")
	}
}

func (v *validator) vault(w *Vault) {
	u, err := url.Parse(w.Address)
	switch {
	case w.Address == "":
		v.absent("spec.vault.address", "write https://HOST:8200", "missing")
	case err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "":
		v.flaw("spec.vault.address", "write https://HOST:8200", "%q is no address of a web server", ShownURL(w.Address))
	}
	v.vaultPath("spec.vault.mount", w.Mount, false)
	v.vaultPath("spec.vault.path", w.Path, true)
	if strings.HasPrefix(w.Path, "data/") && w.Engine != "v1" {
		v.flaw("spec.vault.path", "write "+strings.TrimPrefix(w.Path, "data/"), "data/ is put there by itself: want the path as vault kv get takes it")
	}
	if w.Key == "" {
		v.absent("spec.vault.key", "write which of the values under the path: key: password", "missing")
	} else if len(w.Key) > maxName || hasControl(w.Key) {
		v.flaw("spec.vault.key", "", "want one line of at most %d bytes", maxName)
	}
	v.oneOf("spec.vault.engine", w.Engine, "v1", "v2")
	if len(w.Namespace) > maxName || hasControl(w.Namespace) {
		v.flaw("spec.vault.namespace", "", "want one line of at most %d bytes", maxName)
	}
	if w.TokenFile == "" {
		v.absent("spec.vault.tokenFile", "write tokenFile: /etc/muster/vault-token, a file that the server's user may read", "missing")
	}
	v.wholePath("spec.vault.tokenFile", w.TokenFile)
	v.wholePath("spec.vault.ca", w.CA)
}

func (v *validator) vaultPath(field, text string, needed bool) {
	switch {
	case text == "" && needed:
		v.absent(field, "write it as vault kv get takes it", "missing")
	case text != "" && (text != path.Clean(text) || strings.HasPrefix(text, "/") || strings.HasPrefix(text, "..") || len(text) > maxText || hasControl(text)):
		v.flaw(field, "write it without / at its ends, as app/db", "%q is no path", text)
	}
}

func (v *validator) wholePath(field, text string) {
	if text != "" && (!strings.HasPrefix(text, "/") || len(text) > maxText || hasControl(text)) {
		v.flaw(field, "write the whole path on the server, from /", "%q is no whole path", text)
	}
}

// checkSecrets finds what is wrong with the secrets of a check.
func (v *validator) checkSecrets(s *CheckSpec) {
	if len(s.Secrets) == 0 {
		return
	}
	if s.Command == nil {
		v.absent("spec.secrets", "leave it out", "a probe has no environment")
	}
	v.secretsIn(s.Secrets, s.Env)
}

// secretsIn finds what is wrong with the secrets in the environment of a command, of a check,
// a handler or a mutator, whose other variables are env.
func (v *validator) secretsIn(secrets []CommandSecret, env map[string]string) {
	if len(secrets) > MaxCheckSecrets {
		v.flaw("spec.secrets", "", "%d secrets, at most %d", len(secrets), MaxCheckSecrets)
		return
	}
	seen := map[string]bool{}
	for i, one := range secrets {
		_, plain := env[one.Env]
		v.secretIn(fmt.Sprintf("spec.secrets[%d]", i), one.Env, one.Secret, seen[one.Env] || plain)
		seen[one.Env] = true
	}
}

// secretIn is one of them; twice: its variable is set already.
func (v *validator) secretIn(at, env, secret string, twice bool) {
	switch {
	case env == "":
		v.absent(at+".env", "write the variable that the command reads: env: DB_PASSWORD", "missing")
	case !isVariable(env):
		v.flaw(at+".env", "letters, digits and _, not beginning with a digit", "%q is no name of a variable", env)
	case env == "PATH" || strings.HasPrefix(env, "MUSTER_"):
		v.flaw(at+".env", "give the variable another name", "%s is not for secrets", env)
	case twice:
		v.flaw(at+".env", "keep one of them", "%s is set twice", env)
	}
	if secret == "" {
		v.absent(at+".secret", "write the name of a Secret", "missing")
	} else {
		v.sharedName(at+".secret", secret)
	}
}

// CheckSecretValue says why a value cannot be one: no command can be given it, or it could not be
// hidden in an output.
func CheckSecretValue(value string) error {
	switch {
	case value == "":
		return errors.New("it is empty")
	case len(value) < MinSecret:
		return fmt.Errorf("it is shorter than %d bytes, which cannot be hidden in an output", MinSecret)
	case len(value) > MaxSecret:
		return fmt.Errorf("it is longer than %s", Size(MaxSecret))
	case strings.IndexByte(value, 0) >= 0:
		return errors.New("it holds a zero byte, which no command can be given")
	}
	return nil
}

// SecretOfFile is the value that a file holds: all but the line break at its end.
func SecretOfFile(data []byte) string {
	return strings.TrimRight(string(data), "\r\n")
}
