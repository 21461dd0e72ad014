package model

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
)

// SecretSpec says where a secret value is stored, and never contains the value. It has exactly one of agentEnv,
// agentFile, env, file and vault. The agent reads the first two on its node. The server reads the others and
// sends the value to agents with checks that name it, when they run them, over mutual TLS.
type SecretSpec struct {
	// NAME of the variable MUSTER_SECRET_NAME in the agent's environment; commands do not inherit it.
	AgentEnv string `json:"agentEnv,omitempty"`
	// A path in the agent's folder of secrets (its setting --secrets-dir).
	AgentFile string `json:"agentFile,omitempty"`
	// A variable of the server's environment.
	Env string `json:"env,omitempty"`
	// A file on the server that its user may read.
	File string `json:"file,omitempty"`
	// A key in a KV engine of HashiCorp Vault or OpenBao.
	Vault *Vault `json:"vault,omitempty"`
	// How long an agent may keep the value in memory; default 5m. Vault may shorten it.
	Lease Duration `json:"lease,omitempty"`
}

// Vault says where in HashiCorp Vault or OpenBao a secret value is stored.
type Vault struct {
	// https://vault.example.org:8200
	Address string `json:"address"`
	// The mount path of the KV engine; default secret.
	Mount string `json:"mount,omitempty"`
	// The path behind the mount, as in vault kv get.
	Path string `json:"path"`
	// The key of the value at that path.
	Key string `json:"key"`
	// The KV engine's version, v1 or v2; default v2.
	Engine string `json:"engine,omitempty"`
	// The namespace, of OpenBao and Vault Enterprise.
	Namespace string `json:"namespace,omitempty"`
	// A file on the server with the token, read at each use, so Vault Agent may renew it.
	TokenFile string `json:"tokenFile"`
	// A PEM file on the server with the CA of the address; default the system's.
	CA string `json:"ca,omitempty"`
}

// CommandSecret sets an environment variable of a command to the value of a Secret.
type CommandSecret struct {
	// The variable for the command, and for the hooks of a check.
	Env string `json:"env"`
	// The Secret, of the same namespace or shared/NAME. A handler or mutator needs one whose value the server knows.
	Secret string `json:"secret" ref:"Secret"`
}

// DefinitionSecret is a Secret to which a compiled check, Template or directive refers. It has the secret's
// location on the node, or the name by which the agent requests it from the server.
type DefinitionSecret struct {
	Env       string // in a Template: the macro; in a directive: the parameter
	Name      string // of the Secret: NAMESPACE/NAME
	AgentEnv  string // AgentEnv or AgentFile is set, or the server knows the value
	AgentFile string
}

// OnServer reports whether the server reads the secret value, instead of the agent on each node.
func (s *SecretSpec) OnServer() bool { return s.AgentEnv == "" && s.AgentFile == "" }

// OnServer reports whether the server reads the secret's value, instead of the agent on each node.
func (s *DefinitionSecret) OnServer() bool { return s.AgentEnv == "" && s.AgentFile == "" }

// Location describes for people where the secret value is stored.
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

// Kind returns the name of the resource kind, Secret.
func (*SecretSpec) Kind() string { return "Secret" }

const (
	// SecretVariable is the prefix of variables in an agent's environment that hold secrets.
	SecretVariable = "MUSTER_SECRET_"
	// DefaultSecretLease is how long an agent keeps the value of a secret in memory.
	DefaultSecretLease = 5 * time.Minute
	// MinSecret is the least length of a secret value in bytes, MaxSecret the greatest. Ordinary words contain shorter
	// values, so that an output could not hide them.
	MinSecret, MaxSecret = 4, 16 << 10
	// MaxCheckSecrets bounds the secrets of one check.
	MaxCheckSecrets = 16
)

// CheckSecretValue returns why a text cannot serve as a secret value, or nil. A command may be unable to receive it,
// or an output unable to hide it.
func CheckSecretValue(value string) error {
	switch {
	case value == "":
		return errors.New("it is empty")
	case len(value) < MinSecret:
		return fmt.Errorf("the value is shorter than %d bytes: Muster cannot replace such a short secret in outputs", MinSecret)
	case len(value) > MaxSecret:
		return fmt.Errorf("the value is longer than %s", Size(MaxSecret))
	case strings.IndexByte(value, 0) >= 0:
		return errors.New("the value contains a zero byte, which a command cannot receive")
	}
	return nil
}

// SecretOfFile returns the secret value in the content of a file, without the line break at its end
func SecretOfFile(data []byte) string { return strings.TrimRight(string(data), "\r\n") }

// MarshalJSON encodes the text of the secret, or an object with its source.
func (s Secret) MarshalJSON() ([]byte, error) {
	if s.FromFile == "" && s.FromEnv == "" && s.SecretName == "" {
		return json.Marshal(s.Text)
	}
	type plain Secret
	return json.Marshal(plain(s))
}

// UnmarshalJSON decodes a text, or an object with the source of the secret.
func (s *Secret) UnmarshalJSON(data []byte) error {
	*s = Secret{}
	if err := json.Unmarshal(data, &s.Text); err == nil {
		return nil
	}
	type plain Secret
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode((*plain)(s)); err != nil {
		return errors.New("expected text, {secret: NAME}, {fromFile: /etc/muster/NAME} or {fromEnv: NAME}")
	}
	return nil
}

// IsZero reports whether the secret has neither a text nor a source.
func (s Secret) IsZero() bool { return s == Secret{} }

// RedactedText replaces a secret for readers without access.
const RedactedText = "(hidden)"

// RedactURL cuts an address to its scheme and host, because the rest may be secret. The address may hold variables and
// need not be a valid URL.
func RedactURL(address string) string {
	scheme, rest, ok := strings.Cut(address, "://")
	if !ok {
		return RedactedText
	}
	host := rest
	if end := strings.IndexAny(rest, "/?#"); end >= 0 {
		host = rest[:end]
	}
	more := rest[len(host):]
	host = host[strings.LastIndexByte(host, '@')+1:]
	if more == "" || more == "/" {
		return scheme + "://" + host + more
	}
	return scheme + "://" + host + "/" + RedactedText
}

// RedactQuery removes the part of an address from the question mark on, which may be secret. The query may contain
// tokens.
func RedactQuery(address string) string {
	if place, _, ok := strings.Cut(address, "?"); ok {
		return place + "?" + RedactedText
	}
	return address
}
