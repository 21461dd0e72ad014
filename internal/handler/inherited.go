package handler

import "strings"

// inherits says whether commands get a variable of the server's environment: what they need to
// run where it runs, and nothing else. All else may be a secret: settings with passwords of
// databases, the values of Secrets (env, fromEnv), keys of clouds; and handlers are of any
// namespace.
func inherits(name string) bool {
	switch strings.ToUpper(name) {
	case "PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TMPDIR",
		"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR":
		return true
	}
	return strings.HasPrefix(name, "LC_")
}
