package client

import (
	"bytes"
	"encoding/json"
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

// Context is the content of a context file, the saved login to a server. It has the server address, CA, token and
// default namespace. `muster up` and `muster login` write it.
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

// ContextPath returns the path of the context file (saved login). It is $MUSTER_CONTEXT, else context.yaml in the
// user's configuration folder.
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
			return "", model.Errorf(model.Invalid, "the folder of the context file (saved login) is unknown: set HOME or MUSTER_CONTEXT").
				WithHint("set MUSTER_CONTEXT=FILE, or name the server: --server URL")
		}
		dir = filepath.Join(home, ".config")
	}
	return filepath.Join(dir, "muster", "context.yaml"), nil
}

// LoadContext reads a context file (saved login). A missing file gives an empty context.
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
		return Context{}, model.Errorf(model.Invalid, "%s is not a context file (saved login): %v", path, err).
			WithHint("write one: muster login https://HOST:8443")
	}
	return c, nil
}

// decodeContext parses a context file (saved login).
func decodeContext(data []byte) (c Context, err error) { return c, yaml.Unmarshal(data, &c) }

// SaveContext writes the context file (saved login), readable only by its owner. It replaces the old file in one step:
// a failure leaves the old one.
func SaveContext(path string, c Context) error {
	data, err := yaml.Marshal(c)
	if err != nil {
		return fmt.Errorf("encode the context file %q: %w", path, err)
	}
	if err := replaceFile(path, data); err != nil {
		return model.Errorf(model.Invalid, "write the context file %q: %w", path, err).
			WithHint("use another file: --context-file FILE, or MUSTER_CONTEXT=FILE for all commands")
	}
	return nil
}

// replaceFile replaces the content of a file atomically, by a temporary file and a rename. It writes a
// temporary file, syncs it and renames it.
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

// WithEnv returns the context (saved login), overridden by the variables MUSTER_SERVER, MUSTER_TOKEN and MUSTER_CA.
// The token of the file is never sent to another server than the file names.
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

// ForServer returns the saved login (context) to use for the server at a given address. It is the present
// context if that belongs to the server, else a new one. For another server it keeps only the namespace of c.
func (c Context) ForServer(server string) Context {
	if server != c.Server {
		c = Context{Server: server, Namespace: c.Namespace}
	}
	return c
}

// BackUpContext copies the context file (saved login) at `path` before another server's context replaces the file. The
// copy lies in the same folder; its name ends with the name of c's server. A different copy is never overwritten: the
// new copy gets a number. The file at path stays.
func BackUpContext(path string, c Context) (backup string, err error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("back up the saved login of %s: %w", c.Server, err)
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
			return "", model.Errorf(model.Invalid, "back up the saved login of %s: %w", c.Server, err).
				WithHint("use another context file for this server: --context-file FILE")
		}
		if old, err := os.ReadFile(backup); err == nil && bytes.Equal(old, data) {
			return backup, nil
		}
	}
}

// ContextBackups returns the paths of one server's backup files next to the context file (saved login) at
// `path`.
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

// NamedContext is a saved context (server address and login) with its name and file
type NamedContext struct {
	Context `json:"-"`
	Name    string `json:"name"`
	Current bool   `json:"current"` // the context that commands use
	file    string
}

// MarshalJSON returns the context without its token.
func (x NamedContext) MarshalJSON() ([]byte, error) {
	return json.Marshal(map[string]any{"name": x.Name, "current": x.Current, "server": x.Server, "user": x.User, "namespace": x.Namespace})
}

// Contexts returns the current context (saved login) in a file and the contexts in its backup files. Each has
// the name of its server.
func Contexts(path string) (list []NamedContext, err error) {
	current, err := LoadContext(path)
	if err != nil {
		return nil, err
	}
	if current.Server != "" {
		list = append(list, NamedContext{current, serverFileName(current.Server), true, path})
	}
	files, err := filepath.Glob(filepath.Join(filepath.Dir(path), "*"))
	if err != nil {
		return nil, fmt.Errorf("list saved contexts: %w", err)
	}
	for _, file := range files {
		name, beside := strings.CutPrefix(filepath.Base(file), filepath.Base(path)+".")
		if len(list) > 0 && name == list[0].Name {
			name += ".earlier"
		}
		if c, err := LoadContext(file); beside && err == nil && c.Server != "" && !(c.Server == current.Server && c.Token == current.Token) {
			list = append(list, NamedContext{c, name, false, file})
		}
	}
	return list, nil
}

// UseContext copies a saved context (login) into the context file at `path`. The replaced context is kept as a backup
// file.
func UseContext(path string, x NamedContext) error {
	current, err := LoadContext(path)
	if err != nil {
		return err
	}
	if current.Server != "" {
		if _, err := BackUpContext(path, current); err != nil {
			return err
		}
	}
	if err := SaveContext(path, x.Context); err != nil {
		return err
	}
	return x.Delete()
}

// Delete deletes the file of a context (saved login).
func (x NamedContext) Delete() error {
	if err := os.Remove(x.file); err != nil {
		return fmt.Errorf("delete context: %w", err)
	}
	return nil
}

// serverFileName converts the address of a server to a text that is valid in a file name.
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

// createFile creates a file that only its owner can read. An existing file is an error.
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
