package sensu

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/muster-fleet/muster/internal/client"
	"github.com/muster-fleet/muster/internal/load/play"
	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/model"
)

// Command connects muster load run with Sensu. Passwords are not flags, because other users of the machine can read
// flags.
type Command struct {
	api       string
	user      string
	agentUser string
	json      bool
	bridge    bool
	ca        string
}

// Ours reports whether agents connect to Muster's bridge.
func (s *Command) Ours() bool { return s.bridge }

// Flags adds flags that begin with the target's name.
func (s *Command) Flags(f *pflag.FlagSet) {
	f.StringVar(&s.api, "sensu-api", "", "with --target sensu: the backend's API; default: http://HOST:8080 of the first --server")
	f.StringVar(&s.user, "sensu-user", "admin", "with --target sensu: user of the API, its password in SENSU_PASSWORD")
	f.StringVar(&s.agentUser, "sensu-agent-user", "agent", "with --target sensu: user of the agents, their password in SENSU_AGENT_PASSWORD; default: Sensu's own")
	f.BoolVar(&s.bridge, "sensu-bridge", false, "with --target sensu: the agents come to a Muster server (--sensu-listen there), which is prepared and asked with the login's context")
	f.BoolVar(&s.json, "sensu-json", false, "with --target sensu: agents speak JSON instead of protobuf")
	f.StringVar(&s.ca, "sensu-ca", "", "with --target sensu: file (PEM) of the authorities that wss:// and https:// addresses are checked by; default: the system's")
}

// Runs returns an error if the scenario needs capabilities that are missing. Behind the bridge is Muster.
func (s *Command) Runs(sc *scenario.Scenario) error {
	judged := *sc
	if s.bridge {
		judged.Target = ""
	}
	return judged.Runs()
}

// seededPassword is the agents' password on a new backend.
const seededPassword = "P@ssw0rd!"

// Find returns the target at the addresses of --server.
func (s *Command) Find(sc *scenario.Scenario, server string, login func() (*client.Client, error)) (*play.Found, error) {
	backends, api, err := s.addresses(server)
	if err != nil {
		return nil, err
	}
	secured, err := s.tls()
	if err != nil {
		return nil, err
	}
	var backend Backend = &API{URL: api, User: s.user, Password: os.Getenv("SENSU_PASSWORD"), Namespace: "default",
		Client: &http.Client{Timeout: time.Minute, Transport: &http.Transport{Proxy: http.ProxyFromEnvironment, TLSClientConfig: secured}}}
	found := &play.Found{System: "Sensu Go ", Program: "sensu-backend"}
	if s.bridge {
		ours, err := login()
		if err != nil {
			return nil, err
		}
		backend, found.System = &Bridge{Client: ours, Namespace: "default"}, ""
	}
	for _, b := range backends {
		_, host, _ := strings.Cut(b, "://")
		found.Hosts = append(found.Hosts, strings.TrimSuffix(host, "/"))
	}
	found.Target, err = New(sc, Options{Backends: backends, User: s.agentUser, Password: cmp.Or(os.Getenv("SENSU_AGENT_PASSWORD"), seededPassword),
		Namespace: "default", JSON: s.json, TLS: secured}, backend)
	return found, err
}

// tls returns the TLS configuration with the given authorities; nil means those of the system.
func (s *Command) tls() (*tls.Config, error) {
	if s.ca == "" {
		return nil, nil
	}
	pem, err := os.ReadFile(s.ca)
	if err != nil {
		return nil, model.Errorf(model.Invalid, "--sensu-ca: %w", err)
	}
	known := x509.NewCertPool()
	if !known.AppendCertsFromPEM(pem) {
		return nil, model.Errorf(model.Invalid, "--sensu-ca %s: holds no certificate", s.ca).WithHint("a file that begins with -----BEGIN CERTIFICATE-----")
	}
	return &tls.Config{RootCAs: known}, nil
}

// addresses parses --server, ws:// or wss:// addresses separated by commas, and --sensu-api.
func (s *Command) addresses(server string) (backends []string, api string, err error) {
	for text := range strings.SplitSeq(server, ",") {
		u, err := url.Parse(text)
		if err != nil || u.Scheme != "ws" && u.Scheme != "wss" || u.Host == "" {
			return nil, "", model.Errorf(model.Invalid, "--server %q: want the agents' listener of a backend that runs", server).WithHint("--target sensu --server ws://127.0.0.1:8081")
		}
		if api == "" {
			api = "http://" + u.Hostname() + ":8080"
		}
		if len(backends) > 0 && !strings.HasPrefix(backends[0], u.Scheme+":") {
			return nil, "", model.Errorf(model.Invalid, "--server %q: ws:// and wss:// in one run", server).WithHint("name backends of one kind: the report says how agents came")
		}
		backends = append(backends, text)
	}
	return backends, strings.TrimSuffix(cmp.Or(s.api, api), "/"), nil
}
