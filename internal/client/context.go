package client

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/muster-fleet/muster/internal/model"
)

// Context is the content of a context file: the server, its CA and the session. `muster up` and
// `muster login` write it.
type Context struct {
	Server    string `yaml:"server"`              // https://host:8443
	CA        string `yaml:"ca,omitempty"`        // PEM of the server's CA; empty: the CAs of the system
	CAFile    string `yaml:"caFile,omitempty"`    // file with that PEM
	Token     string `yaml:"token,omitempty"`     // secret of a session or API token
	User      string `yaml:"user,omitempty"`      // name of the user, for people
	Namespace string `yaml:"namespace,omitempty"` // default of -n
	Admin     string `yaml:"admin,omitempty"`     // host:port of the admin listener, if the server is on this machine
	Data      string `yaml:"data,omitempty"`      // data folder, if the server is on this machine
}

// ContextPath returns the path of the context file: $MUSTER_CONTEXT, else context.yaml in the user's
// folder for configuration.
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
			return "", model.Errorf(model.Invalid, "the context file has no folder: HOME is not set").
				WithHint("set MUSTER_CONTEXT=FILE, or name the server: --server URL")
		}
		dir = filepath.Join(home, ".config")
	}
	return filepath.Join(dir, "muster", "context.yaml"), nil
}

// LoadContext reads a context file; a missing file is an empty context.
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
		return Context{}, model.Errorf(model.Invalid, "%s is not a context file: %v", path, err).
			WithHint("write one: muster login https://HOST:8443")
	}
	return c, nil
}

func decodeContext(data []byte) (c Context, err error) { return c, yaml.Unmarshal(data, &c) }

// SaveContext writes a context file that only its owner can read. It replaces the old file in one
// step: a failure leaves the old one.
func SaveContext(path string, c Context) error {
	data, err := yaml.Marshal(c)
	if err != nil {
		return fmt.Errorf("write context file: %w", err)
	}
	if err := replaceFile(path, data); err != nil {
		return model.Errorf(model.Invalid, "write context file: %w", err).
			WithHint("use another file: --context-file FILE, or MUSTER_CONTEXT=FILE for all commands")
	}
	return nil
}

func replaceFile(path string, data []byte) error {
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

// WithEnv returns the context with MUSTER_SERVER, MUSTER_TOKEN and MUSTER_CA applied. The token of
// the file is never sent to another server than the file names.
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

// ForServer returns the context for a server. For another server than that of c, it keeps only the namespace of c.
func (c Context) ForServer(server string) Context {
	if server != c.Server {
		c = Context{Server: server, Namespace: c.Namespace}
	}
	return c
}

// BackUpContext copies the context file at path, which holds c, before the context of another server
// replaces it. The copy lies in the same folder; its name ends with the name of c's server. A
// different copy is never overwritten: the new copy gets a number. The file at path stays.
func BackUpContext(path string, c Context) (backup string, err error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("back up the context file of %s: %w", c.Server, err)
	}
	base := path + "." + serverFileName(c.Server)
	for n := 1; ; n++ {
		if backup = base; n > 1 {
			backup += "." + strconv.Itoa(n)
		}
		err := createFile(backup, data)
		if err == nil {
			return backup, nil
		}
		if !errors.Is(err, fs.ErrExist) {
			return "", model.Errorf(model.Invalid, "back up the context file of %s: %w", c.Server, err).
				WithHint("use another context file for this server: --context-file FILE")
		}
		if old, err := os.ReadFile(backup); err == nil && bytes.Equal(old, data) {
			return backup, nil
		}
	}
}

// ContextBackups returns the files beside path that may be backups of a server's contexts.
func ContextBackups(path, server string) (list []string) {
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		return nil
	}
	base := filepath.Base(path) + "." + serverFileName(server)
	for _, e := range entries {
		if e.Name() == base || strings.HasPrefix(e.Name(), base+".") {
			list = append(list, filepath.Join(filepath.Dir(path), e.Name()))
		}
	}
	return list
}

// serverFileName converts the address of a server to a part of a file name.
func serverFileName(server string) string {
	if server = strings.TrimRight(strings.TrimPrefix(server, "https://"), "/"); server == "" {
		server = "earlier"
	}
	return strings.Map(func(r rune) rune {
		if r < 128 && (r == '.' || r == '-' || r == '_' || '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z') {
			return r
		}
		return '-'
	}, server[:min(len(server), 100)])
}

// createFile writes a new file that only its owner can read; an existing file is an error.
func createFile(path string, data []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		_ = os.Remove(path)
	}
	return err
}
