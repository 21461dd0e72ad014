package loadcmd

import (
	"crypto/tls"
	"os"
	"path/filepath"
	"time"

	"github.com/google/uuid"

	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/load/simulated"
	"github.com/muster-fleet/muster/internal/load/subject"
)

// withTLS are the machines of a scenario that need certificates.
func withTLS(sc *scenario.Scenario) (uids []uuid.UUID) {
	for _, m := range simulated.Members(sc) {
		if sc.Agents[m.Class].TLS {
			uids = append(uids, m.UID)
		}
	}
	return uids
}

// keptCertificates opens the folder with the CA of servers of runs' own and what it issued, in the
// user's cache; nil: nobody needs one, or there is no such folder.
func keptCertificates(uids []uuid.UUID, say func(string, ...any)) *simulated.KeptCertificates {
	cache, err := os.UserCacheDir()
	if err != nil || len(uids) == 0 {
		return nil
	}
	w, err := simulated.OpenCertificates(filepath.Join(cache, "muster-load"), time.Now)
	if err != nil {
		say("warning: certificates are made anew: %v", err)
		return nil
	}
	return w
}

// anew makes certificates of a CA that the server made for itself.
func anew(server *subject.Subject) (func(uuid.UUID) (*tls.Config, error), error) {
	authority, err := server.Authority()
	if err != nil {
		return nil, err
	}
	return simulated.Certificates(authority)
}
