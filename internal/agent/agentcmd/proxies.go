package agentcmd

import (
	"cmp"
	"context"
	"net"

	"github.com/muster-fleet/muster/internal/agent/link"
)

// dialer returns a dialer through the proxy of the settings, or of the lower-case variables.
func (w *rawValues) dialer(getenv func(string) string) (func(ctx context.Context, network, addr string) (net.Conn, error), error) {
	proxy, except := cmp.Or(w.proxy, getenv("https_proxy")), cmp.Or(w.noProxy, getenv("no_proxy"))
	if err := link.CheckProxy(proxy); err != nil {
		return nil, err
	}
	return link.NewDialer(func(name string) string {
		return map[string]string{"HTTPS_PROXY": proxy, "NO_PROXY": except}[name]
	}), nil
}

// proxyPage is the part of docs/reference/agent.md about forward proxies.
const proxyPage = `
## Through a forward proxy

Joining, renewals and sessions go through the proxy that ` + "`HTTPS_PROXY`" + ` names, by CONNECT, unless ` + "`NO_PROXY`" + ` has
the server's host; loopback addresses never do. In a password write ` + "`@`, `:` and `/` as `%40`, `%3A` and `%2F`" + `. When
joining, the settings are kept in the file, where only root reads them:

    muster-agent join mj1.… --https-proxy http://agent:secret@proxy.example.org:3128 --service

Later: change ` + "`HTTPS_PROXY=`" + ` in the file of settings and restart the agent. Commands that it runs do not see what
stands in the file, only what is in the agent's own environment.

The proxy must allow CONNECT to the server's port (squid: ` + "`acl SSL_ports port 8443`" + `) and must not open TLS: the agent
trusts its server's CA alone. When it does not let the agent through, the agent's log names the proxy, its answer
and what to set. A proxy that restarts ends the session; the agent returns by itself.
`
