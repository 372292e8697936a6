package relock_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
)

func TestURLMistakes(t *testing.T) {
	t.Parallel()
	for rawURL, want := range map[string]string{
		"":                               "scheme",
		"localhost:6379":                 "scheme",
		"http://localhost":               "scheme",
		"redis+tls://localhost":          "scheme",
		"//localhost":                    "scheme",
		"redis:localhost":                "scheme://",
		"redis://h/0#part":               "URL",
		"redis://h/first":                "database",
		"redis://h/-1":                   "database",
		"redis://h/1/2":                  "database",
		"redis://h/1.5":                  "database",
		"redis://h/99999999999999999999": "database",
		"redis://h?db=x":                 "database",
		"redis://h/1?db=2":               "database",
		"redis://h?db=1&db=2":            "database",
		"redis://h?timeout=5s":           "timeout",
		"redis://h?DB=1":                 "DB",
		"redis://h?%zz":                  "parameter",
		"redis://h:0":                    "port",
		"redis://h:99999":                "port",
		"redis://h:port":                 "URL",
		"redis://me@h":                   "password",
		"redis://@h":                     "password",
		"unix://run/redis.sock":          "unix",
		"unix://":                        "address",
		"unix:run/redis.sock":            "URL",
		"\x7f":                           "URL",
		"redis://h/%zz":                  "URL",
	} {
		t.Run(rawURL, func(t *testing.T) {
			_, err := relock.NewClientURL(rawURL)
			requireMistakes(t, err, "new client", want)
		})
	}
}

// Passwords are in no error, also when what holds them is no URL, or another one than its author believes.
func TestURLMistakesHideThePassword(t *testing.T) {
	t.Parallel()
	const secret = "hunter2"
	var urls []string
	for _, scheme := range []string{"redis", "rediss", "unix", "http", "", "re dis", "redis\n"} {
		for _, rest := range []string{
			"://:hunter2@127.0.0.1:1/x", "://me:hunter2@127.0.0.1:1/x", "://hunter2@127.0.0.1:1/x", "://hunter2:@127.0.0.1:1", ":hunter2@127.0.0.1:1",
			":/me:hunter2@127.0.0.1:1", "://me:hunter2@127.0.0.1:port", "://me:hunter2@127.0.0.1:1:2", "://me:hunter2@[::1", "://me:hunter2%@127.0.0.1:1",
			"://me:hunter2@127.0.0.1:1?x=%zz", "://me:hunter2@127.0.0.1:1#x", "://127.0.0.1:1?password=hunter2", "://127.0.0.1:1?db=hunter2",
			"://127.0.0.1:1/hunter2", "://127.0.0.1:1#hunter2", "://me:hunter2@/x?y", "://me:hunter2@\x00", "://me:hunter2@127.0.0.1:1/\x7f", "://me:\nhunter2@h",
		} {
			urls = append(urls, scheme+rest)
		}
		for c := range rune(128) { // a character that its author forgot to escape, before the secret, after it, and after a number
			for _, user := range []string{"", "me", "12"} {
				urls = append(urls,
					scheme+"://"+user+":99999"+string(c)+secret+"@127.0.0.1:1/0",
					scheme+"://"+user+":"+string(c)+secret+"@127.0.0.1:1/0",
					scheme+"://"+user+":"+secret+string(c)+"@127.0.0.1:1/0",
					scheme+"://"+user+":12"+string(c)+secret+"@127.0.0.1:1/0",
					scheme+"://"+user+":12"+string(c)+secret+"&a="+secret+"@127.0.0.1:1/0")
			}
		}
	}
	urls = append(urls, "hunter2:@127.0.0.1:1", "hunter2://127.0.0.1:1") // what comes before the first colon is the scheme
	for _, rawURL := range urls {
		c, err := relock.NewClientURL(rawURL, relock.WithDialTimeout(time.Second))
		if err == nil {
			for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q"} {
				require.NotContains(t, fmt.Sprintf(verb, c), secret, rawURL)
				require.NotContains(t, fmt.Sprintf(verb, relock.NewRedisLock("k", c)), secret, rawURL)
			}
			require.NoError(t, c.Close())
			continue
		}
		if strings.Contains(err.Error(), secret) || strings.Contains(err.Error(), "99999") {
			t.Errorf("%q: %v", rawURL, err)
		}
		require.NotContains(t, err.Error(), "\n", rawURL)
		require.ErrorIs(t, err, relock.ErrInvalid, rawURL)
	}
}

// The same for a URL that was given where an address belongs.
func TestAddressMistakesHideThePassword(t *testing.T) {
	t.Parallel()
	for _, address := range []string{"redis://:hunter2@127.0.0.1:1", "me:hunter2@127.0.0.1:1", "redis://me:hunter2@127.0.0.1", "hunter2@127.0.0.1:x"} {
		_, err := relock.NewClient("tcp", address, "hunter2", relock.WithMaxIdle(-1))
		requireMistakes(t, err, "new client", "address")
		require.NotContains(t, err.Error(), "hunter2")
	}
	_, err := relock.NewClient("hunter2", "redis://me:hunter2@127.0.0.1", "hunter2", relock.WithUsername("me"), relock.WithDatabase(-1))
	requireMistakes(t, err, "new client", "network", "WithDatabase")
	require.NotContains(t, err.Error(), ":hunter2@")
}
