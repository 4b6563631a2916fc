"""A Java program that fetches URLs, compiled: a machine that runs Java has no compiler for it.

Made from this source by ``javac --release 8 -g:none``::

    import java.net.*;
    import java.util.*;

    public class Fetch {
        public static void main(String[] a) throws Exception {
            for (String url : a) {
                try (Scanner s = new Scanner(new URL(url).openStream(), "UTF-8")) {
                    System.out.println(s.nextLine());
                } catch (UnknownHostException e) {
                    System.out.println("unknown host " + e.getMessage());
                }
            }
        }
    }
"""

from __future__ import annotations

import base64
import gzip

__all__ = ["FETCH"]

_PACKED = """
H4sIAAAAAAACA3VTy1ITURA9lzxuMg5KeEeJAr6SIEYeKiaACoIgoXwkUEW5GpJbYSDcmUomgq79AX/BDWtcJFVShXt/xq26
APtO5BErzmJ6bt/Tp7tP93w/+noIYBzLGlrg4fDq8MHP0LZpvDMSRUMWEi/XN0XOYfBPmtJ0phk80dgqR4Ah5IIqjllMZHKG
lKLEoTHorlsKJ7HyJq0hCF2RtjJ0RdNntBmnZMpCKraqEJd0tCHEoFm2kHQjjG2GnmisjjetxKK0K079IhVAB4NvJTs/PKGB
o0uxdzPEo03RzVIG0Yswx2UdV9DX0GzmfdkRlNtjVajlrlPGVxR5wqiSXtVxDf0MASl2nbQpBUPnSbnnc2kYxHWOGzpuKgU6
mvAxcFudilIR39YRVQPw5YpWWXDET4Jc1uxGydox1otCQwx3dAzjLkOrkc9nKrZdEuWyyDP0npf5NCKlhnaPIXI2HbklrR25
YJWdud2csB3TkhyjJPy/bcxUzGJelDSMwBPAfUpZqcf2b1Bwv/I/1DGBR7Qlhk0jpCqGmw07/R9m0imBlI5JpalWEM4y9WIU
hGKe1vHYldqx6jEcT0mfeeHkNhi8s1aexPduG6Zk6I6+bTZvKjjjGLmtZcPOKi04npOsTaAci43r4LqppFOByhzphpGc3mAA
T+gnUk8LmPqN6D1DpxBZRtYXr4Htu4AgZvGMYOr6B0EDZD/E00OHU57pSN9n2EOR0aT3AHztAMG1sLeGC1VcbG+voTPp+4Ke
sK+KSBUDyt7aQzjp//ulJ3nYH+ZVDIX93/Yw6KIPMLJWw1j7eBUPFC5Jtoopiv/oYXvHn/bhoaUbQ4qWaopqmiMbwmtkaSiM
TsASAkfgHPOMHRPQT1/ugWOB09KSjR1TU7zRT173KvALLTMcid+4+pOafUGEXiJeAv4AtUpo3YAEAAA=
"""

#: The bytes of ``Fetch.class``.
FETCH = gzip.decompress(base64.b64decode(_PACKED))
