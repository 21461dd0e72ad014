package agentcmd

// proxyPage is the part of docs/reference/agent.md about forward proxies.
const proxyPage = `
## Through a forward proxy

Joining, renewals and sessions go through the proxy that the agent's environment names, by CONNECT:

| variable | meaning |
|---|---|
| ` + "`HTTPS_PROXY`" + ` | ` + "`http://USER:PASSWORD@HOST:PORT`, or `https://…` where the proxy itself speaks TLS; in a password write `@`, `:` and `/` as `%40`, `%3A` and `%2F`" + ` |
| ` + "`NO_PROXY`" + ` | hosts, domains (` + "`.example.org`" + `) and networks that are reached without it, comma separated |

Both are also read in lower case. For a systemd unit, in a file that only root reads (in an ` + "`EnvironmentFile`" + `
` + "`%` stands for itself; in `Environment=` write it twice" + `):

    install -m 600 /dev/null /etc/muster-agent.proxy
    echo 'HTTPS_PROXY=http://agent:secret@proxy.example.org:3128' >> /etc/muster-agent.proxy
    systemctl edit muster-agent        # [Service] EnvironmentFile=/etc/muster-agent.proxy
    systemctl restart muster-agent

The proxy must allow CONNECT to the server's port (squid: ` + "`acl SSL_ports port 8443`" + `) and must not open TLS: the agent
trusts its server's CA alone. When it does not let the agent through, the agent's log names the proxy, its answer
and what to set. A proxy that restarts ends the session; the agent returns by itself.
`
