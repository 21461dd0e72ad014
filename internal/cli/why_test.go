package cli_test

import (
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/api/apitest"
	"github.com/muster-fleet/muster/internal/model"
)

// TestWhy asks of one check on every kind of node how far it came.
func TestWhy(t *testing.T) {
	rig := apitest.New(t)
	x := newTerminal(t, rig)
	x.env["MUSTER_SERVER"], x.env["MUSTER_TOKEN"] = rig.URL, rig.Token
	rig.Nodes("default", map[string]string{"env": "prod"}, "web01", "web02", "web03")
	rig.Nodes("default", map[string]string{"env": "test"}, "db01")
	rig.Apply(`apiVersion: muster/v1
kind: Handler
metadata: {name: notebook}
spec: {command: 'cat >> /tmp/notebook'}
---
apiVersion: muster/v1
kind: Group
metadata: {name: prod}
spec: {where: 'node.labels.env == "prod"'}
---
apiVersion: muster/v1
kind: Group
metadata: {name: canary}
spec: {nodes: [web03]}
---
apiVersion: muster/v1
kind: Check
metadata: {name: disk}
spec:
  targets: {groups: [prod], except: {groups: [canary]}}
  interval: 60s
  ttl: 3m
  command: check_disk -w 20% -c 10% -p /
  alert: {failAfter: 2, handlers: [notebook]}
`)
	x.run("", "why web01")
	x.run("", "why web01/disk")
	rig.Advance(10 * time.Second)
	rig.Result("default", "web01", "disk", model.OK, "DISK OK")
	rig.Result("default", "web02", "disk", model.Critical, "DISK CRITICAL")
	x.run("", "why web01/disk")
	x.run("", "why web02/disk")
	rig.Advance(time.Minute)
	rig.Result("default", "web02", "disk", model.Critical, "DISK CRITICAL")
	x.run("", "why web02/disk")
	x.run("", "why web03/disk")
	x.run("", "why db01/disk")
	x.run("", "why db01/disk -o yaml")
	x.run("", "why db01/keepalive")
	x.run("", "why db01/dsik")
	x.run("", "why db02/disk")
	x.run("", "why web01/")
	x.golden("why.golden")
}
