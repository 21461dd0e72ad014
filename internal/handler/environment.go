package handler

import "strings"

// inherits reports whether commands get a variable of the server's environment: only those that programs need. All others
// may be secrets: settings with passwords of databases, values of Secrets (env, fromEnv), keys of clouds; and handlers belong
// to any namespace.
func inherits(name string) bool {
	switch strings.ToUpper(name) {
	case "PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TMPDIR",
		"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR":
		return true
	}
	return strings.HasPrefix(name, "LC_")
}
