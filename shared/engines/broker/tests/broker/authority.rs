//! A certificate authority for one test. Its keys, and those that it signs, are generated on demand.

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};

/// A certificate and its key, in PEM.
pub struct Identity {
    pub certificate: String,
    pub key: String,
}

pub struct Authority {
    pub pem: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    pub fn new() -> Self {
        let mut params = CertificateParams::new([]).expect("no names");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let key = KeyPair::generate().expect("a key");
        // A distinct name, so that it is not mistaken for another authority.
        let name = format!("Authority {:?}", key.public_key_raw().get(1..9));
        params.distinguished_name.push(DnType::CommonName, name);
        let pem = params.self_signed(&key).expect("a root").pem();
        Self {
            pem,
            issuer: Issuer::new(params, key),
        }
    }

    /// Identity of a broker with this address or name.
    pub fn server(&self, name: &str) -> Identity {
        self.sign(name, ExtendedKeyUsagePurpose::ServerAuth)
    }

    /// Identity of a client.
    pub fn client(&self, name: &str) -> Identity {
        self.sign(name, ExtendedKeyUsagePurpose::ClientAuth)
    }

    fn sign(&self, name: &str, usage: ExtendedKeyUsagePurpose) -> Identity {
        let mut params = CertificateParams::new([name.to_owned()]).expect("a name");
        params.distinguished_name.push(DnType::CommonName, name);
        params.extended_key_usages = vec![usage];
        params.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate().expect("a key");
        let signed = params.signed_by(&key, &self.issuer).expect("a signature");
        Identity {
            certificate: signed.pem(),
            key: key.serialize_pem(),
        }
    }
}
