package sensu

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/model"
)

// proof is the result of authentication: whether a connection proves the identity of its machine.
type proof struct {
	proven   bool       // it is the machine that it claims to be, in that namespace
	unproven string     // reason why it is not proven
	expires  time.Time  // of its certificate; zero: it has none
	roots    [][32]byte // authorities of the certificate
	serials  []serial   // certificates that they could revoke
}

const (
	// sharedPassword is the reason why a password proves no identity.
	sharedPassword = "machines share its password, which proves no identity"
	// sharedCertificate and anyNamespace are the reasons why a certificate proves no identity.
	sharedCertificate = "machines share its certificate, which names none"
	anyNamespace      = "its certificate names the machine and no namespace, and agents of the user %s may connect to several"
	// defaultUser is the user of a machine whose certificate names the machine in its common name, as in Sensu's backend.
	defaultUser = "agent"
)

// checkCertificate finds the user of a certificate and decides whether it proves the machine. As in Sensu's backend, its
// common name is a user, and its DNS names are the machine's. Or its common name is the machine and its organization the
// namespace; both are required, so that a certificate that machines share does not become one machine's when its user is
// deleted.
func (s *Server) checkCertificate(state *tls.ConnectionState, o *offer) error {
	leaf := state.VerifiedChains[0][0]
	common, in, machines := leaf.Subject.CommonName, leaf.Subject.Organization, s.machines(leaf)
	name, namespace := o.header.Get("Sensu-Agentname"), o.header.Get("Sensu-Namespace")
	o.serials = serialsOf(state.VerifiedChains)
	if since, ok := s.cfg.Authorities.revokedSince(o.serials); ok {
		return model.Errorf(model.Forbidden, "the certificate of %q was revoked, %s", leaf.Subject.String(), since.UTC().Format(time.RFC3339)).
			WithHint("issue another one, if the machine is still yours")
	}
	user, err := s.cfg.Access.AgentProgram(common)
	if err != nil {
		if !isMachine(common) || common != name || !slices.Contains(in, namespace) || len(machines) > 0 && !slices.Contains(machines, name) {
			return model.Errorf(model.Unauthenticated, "the certificate of %q: its common name is neither that of a user with the role agent, nor, with the namespace %s as its organization, that of the machine %s",
				leaf.Subject.String(), namespace, name).WithHint("docs/sensu.md, Certificates, says how to make one")
		}
		if user, err = s.cfg.Access.AgentProgram(defaultUser); err != nil {
			return model.Errorf(model.Unauthenticated, "the certificate is that of a machine, and there is no user %s that lets it in", defaultUser).
				WithHint("muster auth user create %s --role agent", defaultUser)
		}
		machines = []string{name}
	}
	o.user, o.expires, o.roots = user, lastExpiry(state.VerifiedChains), rootsOf(state.VerifiedChains)
	namesNamespace := slices.Contains(in, namespace)
	switch {
	case !namesNamespace && s.containsNamespace(in):
		return model.Errorf(model.Forbidden, "the certificate is for namespace %s, and the agent connects to namespace %s", in[0], namespace).
			WithHint("namespace: %s in its agent.yml, or another certificate", in[0])
	case len(machines) == 0:
		o.unproven = sharedCertificate
	case !slices.Contains(machines, name):
		return model.Errorf(model.Forbidden, "the certificate names %s, and the agent has the name %s", strings.Join(machines[:min(len(machines), 3)], ", "), name).
			WithHint("give the agent a certificate of its own, or name: %s in its agent.yml", machines[0])
	case !namesNamespace && (len(user.Namespaces) != 1 || user.Namespaces[0] != namespace):
		o.unproven = fmt.Sprintf(anyNamespace, user.Name)
	default:
		o.proven = true
	}
	return nil
}

// containsNamespace reports whether one of the organizations of a certificate is a namespace.
func (s *Server) containsNamespace(organizations []string) bool {
	return slices.ContainsFunc(organizations, func(org string) bool { return s.cfg.Intent.CheckNamespace(org) == nil })
}

// machines returns the machines that a certificate names. A user's name is no machine, because all machines of the user
// could have it.
func (s *Server) machines(leaf *x509.Certificate) (names []string) {
	for _, name := range leaf.DNSNames {
		if !isMachine(name) {
			continue
		}
		if _, err := s.cfg.Access.AgentProgram(name); err != nil {
			names = append(names, name)
		}
	}
	return names
}

// isMachine reports whether a name is of one machine: a wildcard is not.
func isMachine(name string) bool { return name != "" && !strings.Contains(name, "*") }

// lastExpiry returns the latest expiry of the verified chains.
func lastExpiry(chains [][]*x509.Certificate) (expiry time.Time) {
	for _, chain := range chains {
		end := chain[0].NotAfter
		for _, c := range chain[1:] {
			if c.NotAfter.Before(end) {
				end = c.NotAfter
			}
		}
		if end.After(expiry) {
			expiry = end
		}
	}
	return expiry
}
