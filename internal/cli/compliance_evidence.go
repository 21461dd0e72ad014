package cli

import (
	"bufio"
	"encoding/json"
	"errors"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/client"
	"github.com/muster-fleet/muster/internal/evidence"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pki"
)

// nodeName identifies a node by its namespace and its name.
type nodeName struct{ namespace, node string }

// evidenceSaveCommand makes the command muster report evidence save, which saves nodes' signed policy runs to
// files.
func evidenceSaveCommand(s *commandLine) *cobra.Command {
	var period timeRange
	return s.buildCommand(command{
		use: "save FILE [NODE...]", short: "Save the directive runs of nodes with their signatures to a file; default: of all nodes", args: cobra.MinimumNArgs(1), noFormat: true,
		flags: func(flags *pflag.FlagSet) { period.registerFlags(flags, "30d", "") },
		run: func(c *commandCall) (err error) {
			since, until, err := period.parseTimes(c.commandLine)
			if err != nil {
				return err
			}
			nodes, err := evidenceNodes(c)
			if err != nil {
				return err
			}
			file, err := os.OpenFile(c.args[0], os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
			if err != nil {
				return model.Errorf(model.Invalid, "save the evidence: %w", err).WithHint("name a file that does not exist yet")
			}
			defer func() {
				if err = errors.Join(err, file.Close()); err != nil {
					err = errors.Join(err, os.Remove(file.Name()))
				}
			}()
			w := bufio.NewWriter(file)
			for _, n := range nodes {
				e, err := c.api.Reports.Evidence(c.ctx, n.namespace, n.node, since, until)
				if err != nil {
					return err
				}
				if err := json.NewEncoder(w).Encode(e); err != nil {
					return err
				}
			}
			if err := w.Flush(); err != nil {
				return err
			}
			c.Wrapf(2, "saved the evidence of %s; check it: muster report evidence verify %s", model.CountNoun(len(nodes), "node"), c.args[0])
			return nil
		},
	})
}

// evidenceNodes returns the nodes named in the arguments, or all nodes with policy directives if none is named.
func evidenceNodes(c *commandCall) (nodes []nodeName, err error) {
	for _, name := range c.args[1:] {
		n, err := c.findNodeOrEvent(name)
		if err != nil {
			return nil, err
		}
		nodes = append(nodes, nodeName{n.namespace, n.node})
	}
	if len(nodes) > 0 {
		return nodes, nil
	}
	items, _, err := client.Pages(0, func(size int, after string) ([]v1.Compliance, string, error) {
		page, err := c.api.Compliance(c.ctx, v1.ComplianceFilter{Namespace: c.listNamespace()}, size, after)
		return page.Items, page.Next, err
	})
	if err != nil {
		return nil, err
	}
	for i := range items {
		if n := (nodeName{items[i].Namespace, items[i].Node}); !slices.Contains(nodes[max(0, len(nodes)-1):], n) { // the list is by node
			nodes = append(nodes, n)
		}
	}
	if len(nodes) == 0 {
		return nil, model.Errorf(model.NotFound, "no node has a policy directive").WithHint("name the nodes: muster report evidence save FILE NODE...")
	}
	return nodes, nil
}

// evidenceVerifyCommand makes the command muster report evidence verify, which verifies the signatures of saved
// policy runs.
func evidenceVerifyCommand(s *commandLine) *cobra.Command {
	var ca string
	return s.buildCommand(command{
		use: "verify FILE", short: "Verify the signatures in saved evidence, without a server", args: cobra.ExactArgs(1), noFormat: true, offline: true,
		flags: func(flags *pflag.FlagSet) {
			flags.StringVar(&ca, "ca-hash", "", "expected SHA-256 of the server's CA (sha256:…), as muster node ca shows it; default: any CA, which is printed")
		},
		run: func(c *commandCall) error {
			if ca != "" {
				sum, err := pki.ParseSum(ca)
				if err != nil {
					return err
				}
				ca = pki.FormatSum(sum)
			}
			file, err := os.Open(c.args[0])
			if err != nil {
				return model.Errorf(model.Invalid, "read the evidence: %w", err)
			}
			defer file.Close()
			faults, authorities := 0, []string{}
			err = evidence.VerifyAll(bufio.NewReader(file), func(e *v1.Evidence, found evidence.Findings) {
				if sum, err := pki.SumOf([]byte(e.CA)); err == nil && !slices.Contains(authorities, pki.FormatSum(sum)) {
					authorities = append(authorities, pki.FormatSum(sum))
				}
				c.Printf("%s/%s (%s), %s to %s: %s\n", e.Namespace, e.Node, e.ID, e.Since.UTC().Format(time.DateTime), e.Until.UTC().Format(time.DateTime), found.Text())
				for _, text := range found.Breaks {
					c.Printf("  a chain begins at %s\n", text)
				}
				for _, text := range found.Faults {
					c.Printf("  WRONG: %s\n", text)
				}
				faults += len(found.Faults)
			})
			if err != nil {
				return err
			}
			c.Printf("certificates are of the CA %s\n", strings.Join(authorities, ", "))
			switch {
			case ca != "" && !slices.Equal(authorities, []string{ca}):
				return model.Errorf(model.Conflict, "the evidence belongs to another CA than %s", ca).WithHint("compare with the server: muster node ca")
			case faults > 0:
				return model.Errorf(model.Conflict, "the evidence is not valid: found %s", model.CountNoun(faults, "fault")).WithHint("save it again, and compare")
			}
			return nil
		},
	})
}
