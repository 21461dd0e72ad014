package loadcmd

import (
	"net"
	"path/filepath"
	"strings"
	"testing"

	"github.com/muster-fleet/muster/internal/model"
)

// TestSensuFlags expects errors with hints for impossible runs against Sensu.
func TestSensuFlags(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := l.Addr().String()
	_ = l.Close()
	for _, x := range []struct {
		args  []string
		class model.Class
		says  string
	}{
		{[]string{"sensu-4000x8x5s", "--target", "nagios"}, model.Invalid, "want one of muster, sensu"},
		{[]string{"sensu-4000x8x5s", "--target", "zabbix"}, model.Invalid, "want one of muster, sensu"},
		{[]string{"sensu-36000x38x10s-fleet"}, model.Unsupported, "fleet-of-servers"},
		{[]string{"sensu-36000x38x10s-fleet", "--target", "sensu"}, model.Invalid, "a backend that runs"},
		{[]string{"sensu-36000x38x10s-fleet", "--target", "sensu", "--sensu-bridge"}, model.Unsupported, "fleet-of-servers"},
		{[]string{"sensu-4000x8x5s", "--target", "sensu"}, model.Invalid, "a backend that runs"},
		{[]string{"sensu-4000x8x5s", "--target", "sensu", "--server", "127.0.0.1:8443"}, model.Invalid, "a backend that runs"},
		{[]string{"muster-bad-day", "--target", "sensu", "--server", "ws://127.0.0.1:8081"}, model.Unsupported, "target sensu has no"},
		{[]string{"sensu-4000x8x5s", "--target", "sensu", "--server", "wss://" + nobody, "--sensu-ca", "none.pem"}, model.Invalid, "--sensu-ca"},
		{[]string{"sensu-4000x8x5s", "--target", "sensu", "--server", "wss://" + nobody, "--sensu-ca", "sensu_test.go"}, model.Invalid, "holds no certificate"},
		{[]string{"sensu-4000x8x5s", "--target", "sensu", "--server", "wss://" + nobody + ",ws://" + nobody}, model.Invalid, "in one run"},
		{[]string{"sensu-4000x8x5s", "--scale", "0.01", "--target", "sensu", "--server", "ws://" + nobody, "--sensu-api", "http://" + nobody}, model.Unavailable, "/auth"},
	} {
		args := append([]string{"run", "--out", filepath.Join(t.TempDir(), "out")}, x.args...)
		if _, err := loadCommand(t, "", args...); model.ClassOf(err) != x.class || !strings.Contains(err.Error(), x.says) {
			t.Errorf("%s: %v", x.args, err)
		}
	}
}
