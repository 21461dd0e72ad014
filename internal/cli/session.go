package cli

import (
	"cmp"
	"errors"
	"io/fs"
	"os"

	"github.com/muster-fleet/muster/internal/cli/screen"
	"github.com/muster-fleet/muster/internal/client"
	"github.com/muster-fleet/muster/internal/model"
)

// session is the part of a command line that all commands share: the machine, and the flags that
// choose server and namespace.
type session struct {
	*Env
	server, ca, contextFile string
	namespace               string
	namespaceImplied        bool // namespace comes from the context or the default, not from -n
}

// screen returns the screen of the session; commands with -o set its format.
func (s *session) screen() *screen.Screen {
	return &screen.Screen{Out: s.Stdout, Err: s.Stderr, Width: s.Width, Colours: s.Colour, Zone: s.Zone, Now: s.Now, Format: screen.Narrow}
}

// context returns the server, CA and token to use: flags win over the environment, both over the
// context file.
func (s *session) context() (client.Context, error) {
	path, err := s.contextPath()
	if err != nil && s.server == "" && s.Getenv("MUSTER_SERVER") == "" {
		return client.Context{}, err
	}
	var c client.Context
	if err == nil {
		if c, err = client.LoadContext(path); err != nil {
			return c, err
		}
	}
	c = c.WithEnv(s.Getenv)
	if s.server != "" {
		c = c.ForServer(s.server)
		c.Token = cmp.Or(s.Getenv("MUSTER_TOKEN"), c.Token)
		if ca := s.Getenv("MUSTER_CA"); ca != "" {
			c.CA, c.CAFile = "", ca
		}
	}
	if s.ca != "" {
		c.CA, c.CAFile = "", s.ca
	}
	return c, nil
}

func (s *session) contextPath() (string, error) {
	if s.contextFile != "" {
		return s.contextFile, nil
	}
	return client.ContextPath(s.Getenv)
}

// connect makes the client and takes the context's namespace where -n names none.
func (s *session) connect() (*client.Client, error) {
	c, err := s.context()
	if err != nil {
		return nil, err
	}
	if file := cmp.Or(s.contextFile, s.Getenv("MUSTER_CONTEXT")); file != "" && c.Server == "" {
		if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
			return nil, model.Errorf(model.NotFound, "there is no context file %s", file).
				WithHint("muster login URL and muster up write it; see --context-file and MUSTER_CONTEXT")
		}
		return nil, model.Errorf(model.Invalid, "the context file %s names no server", file).WithHint("log in: muster login https://HOST:8443")
	}
	if s.namespace == "" {
		s.namespace, s.namespaceImplied = c.Namespace, true
	}
	return client.New(c)
}

// ns returns the namespace of one object.
func (s *session) ns() string { return cmp.Or(s.namespace, model.DefaultNamespaceName) }

// nsUnless returns the namespace of a list, or none (all namespaces) with -A.
func (s *session) nsUnless(all bool) string {
	if all {
		return ""
	}
	return s.ns()
}
