package where

import (
	"strings"
	"testing"

	"github.com/muster-fleet/muster/internal/inventory"
	"github.com/muster-fleet/muster/internal/testenv"
)

// TestConditionsReadInventories evaluates conditions over an inventory, and compares the results with a table. It
// expects an error for conditions that read an inventory in another way.
func TestConditionsReadInventories(t *testing.T) {
	entries := []inventory.Entry{
		inventory.New(inventory.Packages, "openssl", "3.0.9-1", "amd64", "deb"), inventory.New(inventory.Packages, "bash", "1:5.1-6.el9", "x86_64", "rpm"),
		inventory.New(inventory.Users, "ann", "1000", "1000", "/home/ann", "/bin/sh"), inventory.New(inventory.Users, "root", "0"),
		inventory.New(inventory.Services, "nginx", "enabled", "running", "systemd"),
	}
	n := NewNode()
	n.Set("default", "web01", MakePairs(map[string]string{"env": "prod"}), nil)
	n.SetInventory(func(term *EntryTerm) (found, known bool) {
		for _, e := range entries {
			if term.Match(e) {
				return true, true
			}
		}
		return false, true
	})
	for expr, want := range map[string]bool{
		`inventory.packages.exists(p, p.name == "openssl" && older(p, "3.0.11-1~deb12u2"))`:                      true,
		`inventory.packages.exists(p, p.name == "openssl" && older(p, "3.0.9-1"))`:                               false,
		`inventory.packages.exists(p, "bash" == p.name && !older(p, "0:9") && p["manager"] == "rpm")`:            true,
		`inventory.packages.exists(x, x.name.startsWith("open")) && node.labels.env == "prod"`:                   true,
		`node.labels.env == "test" && inventory.packages.exists(x, x.name.startsWith("open"))`:                   false,
		`!inventory.services.exists(s, s.name == "nginx" && s.state == "running")`:                               false,
		`inventory.users.all(u, int(u.uid) < 2000)`:                                                              true,
		`inventory.users.all(u, int(u.uid) == 0)`:                                                                false,
		`inventory.users.exists(u, int(u.uid) == 0 && u.name != "root")`:                                         false,
		`inventory.users.exists(u, has(u.shell) && u.shell in ["/bin/sh", "/bin/bash"])`:                         true,
		`inventory.users.exists(u, ["an", "bo"].exists(b, u.name.startsWith(b))) ? node.name == "web01" : false`: true,
		`inventory.ports.exists(p, p.port == "22") || inventory.packages.exists(p, p.arch == "x86_64")`:          true,
		`inventory.ports.all(p, p.port == "22")`:                                                                 true, // there are none
	} {
		c, err := CompileSearch(expr)
		if err != nil {
			t.Errorf("%s: %v", expr, err)
			continue
		}
		if got := c.Match(n); got != want {
			t.Errorf("%s is %v", expr, got)
		}
	}
	bare := NewNode()
	bare.Set("default", "new", MakePairs(map[string]string{"env": "prod"}), nil)
	for expr, want := range map[string]bool{
		`!inventory.packages.exists(p, p.name == "auditd")`:                              false,
		`inventory.packages.all(p, p.name == "auditd")`:                                  false,
		`node.labels.env == "prod" || inventory.packages.exists(p, p.name == "auditd")`:  true,
		`node.labels.env == "prod" && !inventory.packages.exists(p, p.name == "auditd")`: false,
	} {
		c, err := CompileSearch(expr)
		if err != nil || c.Match(bare) != want {
			t.Errorf("%s on a node without an inventory is not %v: %v", expr, want, err)
		}
	}
	for expr, want := range map[string]string{
		`inventory.packages.exists(p, p.nme == "x")`:                                "no field nme",
		`inventory.users.exists(p, older(p, "1"))`:                                  "older() compares an entry",
		`inventory.packages.exists(p, older(p.name, "1"))`:                          "older() compares an entry",
		`inventory.packages.exists(p, p.name == node.name)`:                         "reads only the entry p",
		`size(inventory.packages) > 3`:                                              "only by exists() and all()",
		`inventory.packages.exists_one(p, p.name == "x")`:                           "only by exists() and all()",
		`inventory.packages.map(p, p.name) == ["x"]`:                                "only by exists() and all()",
		`inventory.software.exists(p, true)`:                                        "undeclared reference",
		`inventory.packages.exists(p, inventory.users.exists(u, u.name == p.name))`: "reads only the entry p",
	} {
		if _, err := CompileSearch(expr); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", expr, err, want)
		}
	}
	if c, err := CompileSearch(`inventory.users.exists(u, u.name == "ann") && node.labels.env == "prod"`); err != nil || c.CheckTrusted() == nil || c.InventorySections() != inventory.Users.Bit() {
		t.Errorf("a trusted group may read inventories: %v", err)
	}
	if _, err := Compile(`inventory.packages.exists(p, true)`); err == nil {
		t.Error("a condition of a target reads inventories")
	}
	c, err := CompileSearch(`inventory.packages.exists(p, p.version != "" && "tar" == p.name)`)
	testenv.NoError(t, err)
	if terms := c.EntryTerms(); len(terms) != 1 || terms[0].Name != "tar" || terms[0].Section != inventory.Packages {
		t.Errorf("terms %+v", terms)
	}
}
