package model

import (
	"cmp"
	"errors"
	"fmt"
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

// Location says in words where the value is.
func (s *SecretSpec) Location() string {
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
		return "Vault at " + RedactURL(s.Vault.Address) + ": " + cmp.Or(s.Vault.Mount, "secret") + "/" + s.Vault.Path + ", key " + s.Vault.Key
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
