package client

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"go.yaml.in/yaml/v4"

	"github.com/muster-fleet/muster/internal/model"
)

// Context says where the server is, whom to trust there and who we are. `muster up`
// and `muster login` write it.
type Context struct {
	Server    string `yaml:"server"`              // https://host:8443
	CA        string `yaml:"ca,omitempty"`        // PEM of the server's authority; empty: the system's
	CAFile    string `yaml:"caFile,omitempty"`    // file with the same
	Token     string `yaml:"token,omitempty"`     // of a session or an API token
	User      string `yaml:"user,omitempty"`      // for people
	Namespace string `yaml:"namespace,omitempty"` // default of -n
	Admin     string `yaml:"admin,omitempty"`     // host:port of the admin listener, if the server runs on this machine
	Data      string `yaml:"data,omitempty"`      // its data folder, likewise
}

// ContextPath is where the context file lies: $MUSTER_CONTEXT, else context.yaml in
// the user's folder for configuration.
func ContextPath(getenv func(string) string) (string, error) {
	if path := getenv("MUSTER_CONTEXT"); path != "" {
		return path, nil
	}
	dir := getenv("XDG_CONFIG_HOME")
	if dir == "" {
		home := getenv("HOME")
		if home == "" {
			home = getenv("USERPROFILE")
		}
		if home == "" {
			return "", model.Errorf(model.Invalid, "cannot tell where the context file is: HOME is not set").
				WithHint("set MUSTER_CONTEXT to a file, or give --server")
		}
		dir = filepath.Join(home, ".config")
	}
	return filepath.Join(dir, "muster", "context.yaml"), nil
}

// LoadContext reads a context file; a missing one is an empty context.
func LoadContext(path string) (Context, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return Context{}, nil
	}
	if err != nil {
		return Context{}, fmt.Errorf("read context file: %w", err)
	}
	c, err := decodeContext(data)
	if err != nil {
		return Context{}, model.Errorf(model.Invalid, "%s is no context file: %v", path, err).
			WithHint("it has lines such as server: https://HOST:8443; muster login URL writes one")
	}
	return c, nil
}

func decodeContext(data []byte) (c Context, err error) { return c, yaml.Unmarshal(data, &c) }

// SaveContext writes a context file that only its owner can read, whole or not at all: what
// was there stays until the new one is.
func SaveContext(path string, c Context) error {
	data, err := yaml.Marshal(c)
	if err != nil {
		return fmt.Errorf("write context file: %w", err)
	}
	if err := saveContext(path, data); err != nil {
		return model.Errorf(model.Invalid, "write context file: %w", err).
			WithHint("it can lie elsewhere: --context-file FILE, or MUSTER_CONTEXT=FILE for all commands")
	}
	return nil
}

func saveContext(path string, data []byte) error {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	tmp, err := os.CreateTemp(dir, ".context-*") // mode 0600
	if err != nil {
		return err
	}
	_, err = tmp.Write(data)
	if err = errors.Join(err, tmp.Sync(), tmp.Close()); err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		_ = os.Remove(tmp.Name())
	}
	return err
}

// WithEnv lets MUSTER_SERVER, MUSTER_TOKEN and MUSTER_CA win over the file. Another
// server than the file's does not get the file's token.
func (c Context) WithEnv(getenv func(string) string) Context {
	if server := getenv("MUSTER_SERVER"); server != "" {
		c = c.ForServer(server)
	}
	if token := getenv("MUSTER_TOKEN"); token != "" {
		c.Token, c.User = token, ""
	}
	if ca := getenv("MUSTER_CA"); ca != "" {
		c.CA, c.CAFile = "", ca
	}
	return c
}

// ForServer points to another server and forgets what belongs to the present one.
func (c Context) ForServer(server string) Context {
	if server != c.Server {
		c = Context{Server: server, Namespace: c.Namespace}
	}
	return c
}
