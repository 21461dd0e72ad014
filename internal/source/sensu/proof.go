package sensu

import (
	"crypto/tls"
	"crypto/x509"
	"slices"
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/model"
)

// proof is what a connection proves of its agent.
type proof struct {
	proven  bool       // that it is the machine that it says it is, in that namespace
	why     string     // it is not
	until   time.Time  // its certificate is good; zero: it has none
	roots   [][32]byte // the authorities that say so
	serials []serial   // what they could revoke
}

const (
	// byPassword is why one proves nothing.
	byPassword = "its password is one that machines share, and proves nothing of who it is"
	// defaultUser is whose a machine is that its certificate's common name names, as with Sensu's backend.
	defaultUser = "agent"
)

// certified finds the user of a certificate, and what it proves. As with Sensu's backend, its common
// name is a user's; then its DNS names are the machine's. Or its common name is the machine's and its
// organization the namespace: of that, and of nothing less, because a certificate that machines share
// must not become one of a machine when its user is deleted.
func (s *Server) certified(state *tls.ConnectionState, o *offer) error {
	leaf := state.VerifiedChains[0][0]
	common, in, machines := leaf.Subject.CommonName, leaf.Subject.Organization, s.machines(leaf)
	name, namespace := o.said.Get("Sensu-Agentname"), o.said.Get("Sensu-Namespace")
	o.serials = serialsOf(state.VerifiedChains)
	if since, ok := s.cfg.Authorities.recalled(o.serials); ok {
		return model.Errorf(model.Forbidden, "the certificate of %q was revoked, %s", leaf.Subject.String(), since.UTC().Format(time.RFC3339)).
			WithHint("give the machine another one, if it is still yours")
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
	o.user, o.until, o.roots = user, goodUntil(state.VerifiedChains), rootsOf(state.VerifiedChains)
	ofNamespace := slices.Contains(in, namespace)
	switch {
	case !ofNamespace && s.ofAnother(in):
		return model.Errorf(model.Forbidden, "the certificate is one of namespace %s, and the agent says that it is in %s", in[0], namespace).
			WithHint("namespace: %s in its agent.yml, or another certificate", in[0])
	case len(machines) == 0:
		o.why = "its certificate is one that machines share: it names none"
	case !slices.Contains(machines, name):
		return model.Errorf(model.Forbidden, "the certificate is that of %s, and the agent says that it is %s", strings.Join(machines[:min(len(machines), 3)], ", "), name).
			WithHint("give the agent a certificate of its own, or name: %s in its agent.yml", machines[0])
	case !ofNamespace && (len(user.Namespaces) != 1 || user.Namespaces[0] != namespace):
		o.why = "its certificate says who it is and not in which namespace, and agents of the user " + user.Name + " may be in several"
	default:
		o.proven = true
	}
	return nil
}

// ofAnother says whether one of the organizations of a certificate is a namespace here.
func (s *Server) ofAnother(organizations []string) bool {
	return slices.ContainsFunc(organizations, func(org string) bool { return s.cfg.Intent.CheckNamespace(org) == nil })
}

// machines are the names of machines that a certificate has. What is a user's name is none: all of
// its machines could have that.
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

// isMachine leaves out what stands for many.
func isMachine(name string) bool { return name != "" && !strings.Contains(name, "*") }

// goodUntil is when the last of the chains that were verified ends.
func goodUntil(chains [][]*x509.Certificate) (until time.Time) {
	for _, chain := range chains {
		end := chain[0].NotAfter
		for _, c := range chain[1:] {
			if c.NotAfter.Before(end) {
				end = c.NotAfter
			}
		}
		if end.After(until) {
			until = end
		}
	}
	return until
}
