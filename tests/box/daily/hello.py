"""A Java program, compiled: a machine that runs Java has no compiler for it.

Made from this source by ``javac --release 8 -g:none``::

    import java.net.*;
    import java.nio.file.*;
    import java.util.concurrent.*;

    public class Hello {
        public static void main(String[] a) throws Exception {
            System.out.println("hello " + a[0]);
            Files.write(Paths.get("f"), "text".getBytes());
            System.out.println(new String(Files.readAllBytes(Paths.get("f"))));
            ExecutorService pool = Executors.newFixedThreadPool(2);
            Callable<Integer> six = Executors.callable(() -> { }, 42);
            System.out.println(pool.invokeAll(java.util.Collections.nCopies(2, six)).get(1).get());
            pool.shutdown();
            ServerSocket s = new ServerSocket(0, 1, InetAddress.getLoopbackAddress());
            Socket c = new Socket("localhost", s.getLocalPort());
            c.getOutputStream().write(7);
            System.out.println(s.accept().getInputStream().read());
        }
    }
"""

from __future__ import annotations

__all__ = ["UNPACK"]

_CLASS = """
H4sIAAAAAAACA51W+XcTVRT+XpN00vQVSspSRBFq0aSAQcSN4EIqhWhKK63BWrdp8toMnc7EyZsuuOC+477v+76BmqZw9PiL
v3j8mzzel6VN2oTDMefkTebde797v/vuvS9//3vmDwB7UAigCR4NXg4fmhnaj+nTesTUrYnIwNgxkZIMzfsMy5A3MHhC4WQL
/GjREOBoBa9RH5rLSTFFWrZLRusSRYlhRwYdw5JD0hH6VFTDKoYNVTaShBMx1zDTwgmgDR4/1pDHjDBNe4va6OBYi3W0pWez
wkoz7AwllttHw4kGkFEFsYGjExsZ/NIuCRnWhlaakO4mXKjhIo7NuJihow4BBi2r3kyLGNYLJOnHVgY2ruGS2uQU5QFsw6Ua
LuMIIVzxYJGLccMUkUFdZnKUvwlB+YvWQR9tyLwGI+rHdgavFLMygC7s5LgcEaJPuLE5KciFNxQejWm4gqGz1nyAcjyQlYZt
BXAl9mi4iuNqXLMi1D5aCMc34xhSMBwM1QtjNDaaaARfP3Dl9DqOvYgycMp3er9plkPurOuCaCiK16vipQL1hUZj4WQAN2G/
hhhHL25m2Fy0c6VhRlK2lXIdR1gycmBWpFxpOwQdtMRMnzEr0sMZ5XPQtk2GcCheDrGR5ZBwpo2UiAapj/o4DuIQnZ3jUmWs
r6muI65l6WOmIHa34FYNCY5+HGZYs6QSt6SYEA5V17RuumJgXGHEq0HKGlHFbZDjNhyhA03ppqmQlw6g1mFieS9HG1DqLQMR
/DBu15DkOIo7qMSXtHtt0yQEOjrKmGb12llDHcu2UPzcXhJGTkZbcSdGNdzFcTfuYeg+n7wytBjWtD0pqAYYQqFEvVjquboP
uoYx1WIphlW1YtW1NXktR6yB/G2qG1afK11HtCKNCYWZWT48yghqeBxTk2Ny2WSo5CSpkjDFYakp689lXJm2ZywN2UqaLSEj
irtwhuzUpKDedZDTIDlcTJPXRaU4LfvTaUfkVPFSVydsOzumpyYXNzsrES5TpyhtzKpmmSO6oXi8vlY4qeEBhtVLYRUD8uMh
OhTTprLL2DmpsE5wPIJHqVmLUZBg0HZk8aKIB3AcjytXT6hiXjm54qpRj+MpjqfxDDkjhAFXZt3FSbtIgjq+WkIknsPzGl5Q
o+lkJTHLlNSMK3qw8RLHy3hF3SCplMhSdB3V2SlRi6pQXuN4HW9QzVAocasKakNVJFUCMnoLb2t4h+NdlYSOOjoUh5opqjre
V9VxUsOHNKcOqfuNZL12mgrPO6UbxbFRb8AnGQIHZlXkqvc0fF5xVNRalDC0mfrUWFrvVmDdu+j2idm2zElHz/YLmbHTudXN
+DqAb/Cthu84vscPDF1LSKVmiySKIGShj+sp6kYqlNap6rd/qs+ybFRycEi30nQtdFM5TrrZ6EoujQyH57Li/wlLLs9tG14p
VfNuiG6uaDuaKSs/B/ABTnF8oVqTxy1LOL2mnssJSvevNOPOi6+GfOWuaahKRVhSxlby2AT18YCpf160fkRva+jJ6OnrmQc7
VVRowcf4hJSV+C9S9dFz4TS0s2gbmcfqYHsewR7PblrzWJ/HBcEtnt/RVUB3sCePHfR7VwG7jxYNukYWhQVcO499pO4r4MbE
GRwA2nsKiBcw0E+62307ChhawEgTvAu4twl/Ir0AupfyMLYvgCbyWdgjHm8B989j5vBZHB8JPrgzj4fn8dhe70ZvHk+2a3k8
S1C0+2Ier+bxZh7vlSh9Sl8v8fysPaCSXubehtKnzLsJX9LKSfgVJelH/ETf07QToJ1f8BvmsfE/y4ikgcYKAAA=
"""

#: A Python program that writes ``Hello.class``.
UNPACK = f"""
import base64, gzip
code = gzip.decompress(base64.b64decode({_CLASS!r}))
open("Hello.class", "wb").write(code)
"""
