package cli_test

import (
	"strings"
	"testing"
)

// TestUserCommands manages users without a terminal.
func TestUserCommands(t *testing.T) {
	_, x := openTerminal(t)
	x.file("first", "battery staple\n")
	x.file("second", "staple battery\n")
	x.file("empty", "\n")
	expect := func(stdin, line string, code int, want string) string {
		t.Helper()
		x.text.Reset()
		out, got := x.run(stdin, line)
		if got != code || !strings.Contains(x.text.String(), want) {
			t.Fatalf("want code %d and %q in\n%s", code, want, x.text.String())
		}
		return out
	}
	out := expect("", "auth user create kiosk", 0, "user kiosk (viewer) created, password ")
	made := strings.Fields(out)[5]
	expect("", "auth user create ada --role admin --password-file DIR/first", 0, "user ada (admin) created\n")
	expect("", "auth user create ada", 4, "exists already")
	expect("", "auth user create bob --password-file DIR/empty", 2, "is empty")
	expect("", "auth user create bob --role captain", 2, "")
	expect("", "auth user create amy --bind web=operator,db=viewer --password-file DIR/first", 0, "user amy (viewer in db, operator in web) created")
	expect("", "auth user create sam --bind shared=viewer", 2, "")
	expect("", "auth user grant amy --role viewer --bind web=admin", 0, "user amy is now: viewer, admin in web\n")
	expect("", "auth user grant amy --bind web=captain", 2, "")
	expect("", "auth user grant nobody --role viewer", 3, "no user")
	expect("", "auth user create eve --role operator --may-run-commands", 0, "user eve (operator, runs commands) created")
	expect("", "auth user delete eve", 0, "deleted")
	expect("", "auth user list", 0, "kiosk  viewer")
	expect("", "auth user delete kiosc", 3, "did you mean kiosk?")
	expect("", "get users", 2, "muster auth user list")

	delete(x.env, "MUSTER_TOKEN")
	expect(made, "login URL -u kiosk --password-file -", 0, "as kiosk")
	expect("", "auth password", 2, "--old-password-file")
	expect("wrong horse", "auth password --old-password-file - --password-file DIR/second", 6, "old password is wrong")
	expect(made, "auth password --old-password-file - --password-file DIR/second", 0, "password changed")
	expect("", "auth whoami", 0, "kiosk (viewer)")
	expect("", "login URL -u ada --password-file DIR/first", 0, "as ada")
	expect("", "auth user delete kiosk", 0, "user kiosk deleted, with 1 session and 0 tokens")
	expect("", "login URL -u kiosk --password-file DIR/second", 5, "wrong")
	expect("", "auth user delete admin", 0, "deleted")
	expect("", "auth user delete ada", 4, "last administrator")
}
