package config

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/queue"
	"github.com/muster-fleet/muster/internal/wire"
)

// Proxies are the networks of ProxyFrom.
func (s *Server) Proxies() []netip.Prefix {
	list, err := networks(s.ProxyFrom)
	if err != nil {
		panic("BUG: settings that were not checked: " + err.Error())
	}
	return list
}

// networks reads addresses and networks; an address is a network of one.
func networks(words []string) ([]netip.Prefix, error) {
	var list []netip.Prefix
	for _, word := range words {
		if address, err := netip.ParseAddr(word); err == nil && address.Zone() == "" {
			address = address.Unmap()
			list = append(list, netip.PrefixFrom(address, address.BitLen()))
			continue
		}
		network, err := netip.ParsePrefix(word)
		if err != nil {
			return nil, fmt.Errorf("%q: want addresses or networks such as 10.0.0.7, 10.0.0.0/24 or fd00::/64, comma separated", word)
		}
		if network.Bits() == 0 {
			return nil, fmt.Errorf("%q: whoever connects would be believed: name the balancers", word)
		}
		list = append(list, network.Masked())
	}
	return list, nil
}

// check returns the errors of settings that contradict each other.
func (s *Server) check() []error {
	var problems []error
	bad := func(format string, args ...any) { problems = append(problems, fmt.Errorf(format, args...)) }
	if s.Pending != "on" && s.Pending != "off" {
		bad("pending: %q: want on or off", s.Pending)
	}
	if s.WatchdogInterval < model.Duration(time.Second) {
		bad("watchdog-interval (%s) must be at least 1s", s.WatchdogInterval)
	}
	if u, err := url.Parse(s.WatchdogURL); s.WatchdogURL != "" && (err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https") {
		bad("watchdog-url must be an address such as https://hc.example.org/ping/…")
	}
	if s.KeepaliveTimeout <= s.KeepaliveInterval {
		bad("keepalive-timeout (%s) must be longer than keepalive-interval (%s)", s.KeepaliveTimeout, s.KeepaliveInterval)
	}
	if s.CertificateLife < model.Duration(10*time.Second) || s.CertificateLife > model.Duration(10*365*24*time.Hour) {
		bad("certificate-life (%s) must be between 10s and 3650d", s.CertificateLife)
	}
	if s.JournalBudget < 64<<20 {
		bad("journal-budget (%s) must be at least 64MiB", s.JournalBudget)
	}
	if s.JournalReserve >= s.JournalBudget {
		bad("journal-reserve (%s) must be smaller than journal-budget (%s)", s.JournalReserve, s.JournalBudget)
	}
	for name, d := range map[string]model.Duration{"history-retention": s.HistoryRetention, "audit-retention": s.AuditRetention} {
		if d < model.Duration(24*time.Hour) && (d != 0 || name == "history-retention") {
			bad("%s (%s) must be at least 1d", name, d)
		}
	}
	if s.MaxFrame < 64<<10 {
		bad("max-frame (%s) must be at least 64KiB", s.MaxFrame)
	}
	if s.MaxFrame > s.MaxUnacked {
		bad("max-frame (%s) must not be larger than max-unacked (%s)", s.MaxFrame, s.MaxUnacked)
	}
	if s.MaxFrame > wire.MaxFrame {
		bad("max-frame (%s) must not be larger than the protocol's %s", s.MaxFrame, model.Size(wire.MaxFrame))
	}
	if s.MaxOutput > model.MaxOutputBytes {
		bad("max-output (%s) must not be larger than %s", s.MaxOutput, model.Size(model.MaxOutputBytes))
	}
	if s.ListenPlain != "" {
		host, _, err := net.SplitHostPort(s.ListenPlain)
		if ip := net.ParseIP(host); err != nil || host != "localhost" && (ip == nil || !ip.IsLoopback()) {
			bad("listen-plain (%s) must be a loopback address such as 127.0.0.1:8445: agents are believed there without proof", s.ListenPlain)
		}
	}
	if s.SensuTLS != "on" && s.SensuTLS != "off" {
		bad("sensu-tls %q: want on or off", s.SensuTLS)
	}
	if s.SensuTLS == "off" && s.SensuClientCA != "" {
		bad("sensu-client-ca (%s) with sensu-tls off: without TLS nobody shows a certificate", s.SensuClientCA)
	}
	if s.SensuClientCRL != "" && s.SensuClientCA == "" {
		bad("sensu-client-crl (%s) without sensu-client-ca: whose certificates are they?", s.SensuClientCRL)
	}
	for _, name := range s.Advertise {
		if _, err := netip.ParseAddr(strings.Trim(name, "[]")); err == nil || !strings.ContainsAny(name, ":/") {
			continue
		}
		if err := model.CheckHostPort(name); err != nil {
			bad("advertise: %q: want names and addresses, with a port where it differs from --listen: muster.example.org,10.0.0.7,[fd00::7]:443", name)
		}
	}
	for _, address := range s.AgentServers {
		if err := model.CheckHostPort(address); err != nil {
			bad("agent-servers: %w", err)
		}
	}
	if len(s.AgentServers) > wire.MaxServers {
		bad("agent-servers: %d addresses, at most %d", len(s.AgentServers), wire.MaxServers)
	}
	if _, err := networks(s.ProxyFrom); err != nil {
		bad("proxy-from: %w", err)
	}
	if _, err := queue.ParseSettings(s.Queues); err != nil {
		bad("queues: %w", err)
	}
	for _, db := range []struct{ name, address string }{{"intent-db", s.IntentDB}, {"history-db", s.HistoryDB}} {
		if db.address != "" && !strings.HasPrefix(db.address, "postgres://") && !strings.HasPrefix(db.address, "postgresql://") {
			bad("%s: want postgres://USER:PASSWORD@HOST:5432/DATABASE; left out, it is a file in the data folder", db.name)
		}
	}
	if s.ProblemLink != "" && !strings.HasPrefix(s.ProblemLink, "https://") && !strings.HasPrefix(s.ProblemLink, "http://") {
		bad("problem-link: %q: want an address such as https://wiki.example.org/problems?id={problem}", s.ProblemLink)
	}
	switch strings.ToLower(s.LogLevel) {
	case "debug", "info", "warn", "error":
	default:
		bad("log-level %q: want debug, info, warn or error", s.LogLevel)
	}
	if s.LogFormat != "text" && s.LogFormat != "json" {
		bad("log-format %q: want text or json", s.LogFormat)
	}
	return problems
}
